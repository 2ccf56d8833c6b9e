"""Runs eager programs of TensorFlow, each in a fork of this process: TensorFlow and Keras are imported once.

    python -m tests.eager_runs

reads one job as JSON per line of its standard input (`kind`, `folder`, and `settings` or `words`) and answers each with the exit code of
the process: `observed` is a run under observation (its events go to the file `events`), `alone` the program by itself with the same
seeds, `replay` a script that replays a failure, `restored` asks whether everything is as it was after a run. What is printed goes to
the file `printed`.
"""

from __future__ import annotations

import json
import os
import random
import runpy
import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np

from tensorproof.expose.child import run_rounds
from tensorproof.expose.eager.program import TensorflowEagerRun
from tensorproof.expose.events import Pipe
from tensorproof.expose.search.board import Board
from tensorproof.expose.settings import Settings

#: Seconds that one job may take.
LONGEST = 240


def run(job: dict[str, Any], folder: Path) -> int:
    if job["kind"] == "replay":
        sys.argv = job["words"]
        runpy.run_path(sys.argv[0], run_name="__main__")
        return 3
    settings = Settings.from_json(json.dumps(job["settings"]))
    if job["kind"] == "restored":
        return restored(settings, folder)
    if job["kind"] == "alone":
        return alone(settings)
    pipe = Pipe(os.open(folder / "events", os.O_WRONLY | os.O_CREAT | os.O_TRUNC))
    run_rounds(settings, [TensorflowEagerRun], pipe, folder, lambda child: os.waitpid(child, 0)[1])
    return 0


def alone(settings: Settings) -> int:
    import tensorflow as tf

    random.seed(settings.seed)
    np.random.seed(settings.seed)  # noqa: NPY002
    tf.random.set_seed(settings.seed)
    sys.argv = [settings.script]
    runpy.run_path(settings.script, run_name="__main__")
    return 0


def restored(settings: Settings, folder: Path) -> int:
    """Whether what a run replaces in TensorFlow and Keras is there again after it."""
    import keras
    import tensorflow as tf
    from tensorflow.python import pywrap_tfe
    from tensorflow.python.data.ops import iterator_ops
    from tensorflow.python.eager import context, execute, imperative_grad
    from tensorflow.python.framework import constant_op
    from tensorflow.python.ops import resource_variable_ops

    def present() -> list[Any]:
        iterators = iterator_ops.OwnedIterator
        optimisers: Any = keras.optimizers.Optimizer.__mro__
        return [
            imperative_grad.imperative_grad,
            pywrap_tfe.TFE_Py_FastPathExecute,
            constant_op.convert_to_eager_tensor,
            resource_variable_ops.BaseResourceVariable.__init__,
            iterators._next_internal,
            iterators.get_next_as_optional,
            [owner.__dict__.get("apply") for owner in optimisers],
            keras.optimizers.LossScaleOptimizer.scale_loss,
            tf.config.functions_run_eagerly(),
            execute.execute,
            list(context.context().op_callbacks),
        ]

    before = present()
    events = Pipe(os.open(folder / "events", os.O_WRONLY | os.O_CREAT))
    with TensorflowEagerRun(settings, Board(), events, folder, {}):
        during = present()
        runpy.run_path(settings.script, run_name="__main__")
    changed = [one is not other and one != other for one, other in zip(before, during)]
    return int(before != present() or sum(changed) < 7)


def main() -> None:
    import keras
    import tensorflow as tf

    assert tf.__version__ and keras.__version__
    for line in sys.stdin:
        job = json.loads(line)
        child = os.fork()
        if not child:
            signal.alarm(LONGEST)
            folder = Path(job["folder"])
            printed = os.open(folder / "printed", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(printed, 1)
            os.dup2(printed, 2)
            code = 4
            try:
                code = run(job, folder)
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)
        print(json.dumps(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])), flush=True)


if __name__ == "__main__":
    main()
