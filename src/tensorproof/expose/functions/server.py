"""The process in which a function is searched: python -m tensorproof.expose.functions.server DESCRIPTOR.

It does one thing, as a line of JSON on standard input says: {"search": settings, "folder": path}. Events go to the descriptor.
Besides those of `tensorproof.expose.events` there is `arranged`: how the function is called. `done` is the last one. When standard
input ends, whoever started this process is gone, and it ends, too.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from tensorproof.errors import AssumptionError, SourceError, TensorproofError
from tensorproof.expose.events import Pipe
from tensorproof.expose.functions.arrangement import Arrangement, Knowledge, arrangements
from tensorproof.expose.functions.declaration import FunctionSettings
from tensorproof.expose.functions.search import NOTHING_FLOATING, TRIALS, Evaluator, FunctionSearch
from tensorproof.expose.functions.target import Target, resolved


def serve(descriptor: int) -> None:
    """Do what is asked."""
    pipe = Pipe(descriptor)
    command: dict[str, Any] = json.loads(sys.stdin.buffer.readline())
    threading.Thread(target=_end_with_the_other, daemon=True).start()
    # What the function warns of is not the user's to read.
    warnings.simplefilter("ignore")
    settings = FunctionSettings.from_json(command["search"])
    try:
        search_function(settings, pipe, Path(command["folder"]))
    except TensorproofError as error:
        pipe.send("ended", how="refused", text=str(error), operators=None)
    pipe.send("done", code=0, cpu=time.process_time())


def _end_with_the_other() -> None:
    while os.read(0, 1 << 16):
        pass
    os._exit(1)


def search_function(settings: FunctionSettings, pipe: Pipe, folder: Path) -> None:
    """Find the function, and search it; what cannot be done is an error of `tensorproof.errors`."""
    target = resolved(settings.function, settings.folder)
    arrangement, evaluator = _accepted(target, settings)
    pipe.send(
        "arranged",
        framework=target.framework,
        parts=target.parts,
        folder=target.folder,
        constructor=[parameter.name for parameter in target.constructor],
        is_method=target.owner is not None,
        positional=target.positional([*arrangement.literals, *(a.name for a in arrangement.arguments)]),
        literals={name: repr(value) for name, value in arrangement.literals.items()},
        formats={argument.name: argument.format.name for argument in arrangement.arguments},
        differentiated=[argument.name for argument in arrangement.arguments if argument.has_gradient],
        guesses=arrangement.guesses,
        words={argument.name: argument.words() for argument in arrangement.arguments},
        sources={argument.name: argument.source for argument in arrangement.arguments},
    )
    for argument in arrangement.arguments:
        is_declared = argument.source == "declared"
        pipe.send("value", name=argument.name, label="", low=argument.low, high=argument.high, is_declared=is_declared)
    search = FunctionSearch(evaluator, arrangement.arguments, settings, pipe, folder)
    search.search()
    if search.refused:
        pipe.send("note", text=f"the function refused the arguments of {search.refused} of {search.calls} calls")
    pipe.send("ended", how="finished", text="", operators=None, evaluations=search.evaluations, runs=search.runs)


def _accepted(target: Target, settings: FunctionSettings) -> tuple[Arrangement, Evaluator]:
    """The first way to call the function that it takes."""
    knowledge, evaluator_of = _framework(target, settings)
    told: dict[str, None] = {}
    tried = list(arrangements(target, settings, knowledge))
    for found in tried:
        evaluator = evaluator_of(found)
        generator = np.random.default_rng(settings.seed)
        for number in range(TRIALS):
            draw = {a.name: a.drawn(generator) if number % 2 else a.even(generator) for a in found.arguments}
            ran = evaluator.run(draw)
            if not ran.refused:
                return found, evaluator
            told[ran.refused] = None
    if NOTHING_FLOATING in told:
        raise SourceError(target.name, "it returns no floating tensor: nothing that it gives can be NaN or infinite")
    first = tried[0].guesses
    guesses = f"; guessed: {'; '.join(first)}; declare them with --args" if first else ""
    raise AssumptionError(f"{target.name}: it refuses all arguments that were tried ({next(iter(told))}){guesses}")


def _framework(target: Target, settings: FunctionSettings) -> tuple[Knowledge, Any]:
    """What the framework of a function knows of arguments, and what calls the function."""
    if target.framework == "torch":
        from tensorproof.expose.functions.constraints import knowledge_of
        from tensorproof.expose.functions.on_pytorch import TorchFunction

        return knowledge_of(target, settings), lambda found: TorchFunction(target, found, settings.seed)
    from tensorproof.expose.functions.on_tensorflow import TensorflowFunction

    return lambda *_: None, lambda found: TensorflowFunction(target, found, settings.seed)


if __name__ == "__main__":
    serve(int(sys.argv[1]))
