"""The script of a finding: plain Keras or ONNX code that shows it without tensorproof, in processes of its own.

It runs itself once for each side, with the environment that the side needs, prints what each gave, and exits with 1 if the defect
shows, with 0 if not, with 2 if it could not be run.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from textwrap import dedent, indent

from tensorproof.compare.fuzzing.finding import Explanation
from tensorproof.compare.fuzzing.keras_scripts import keras_body
from tensorproof.compare.fuzzing.onnx_scripts import onnx_body
from tensorproof.compare.fuzzing.refusals import ACCEPTS_ILLEGAL
from tensorproof.compare.fuzzing.results import PROMISED
from tensorproof.compare.workers.backend_id import BackendId

#: Seconds that one side of a script may take, and that the whole script may.
SIDE_LIMIT = 120
SCRIPT_LIMIT = 2 * SIDE_LIMIT + 30
#: The part of the difference that was seen which a script has to see again.
_SHARE = 0.25

#: What a script prints when it shows the defect.
SHOWN = "the defect shows"

_SELF = ("compiled", "saved", "repeat")


def script_of(found: Explanation, versions: Mapping[str, str], title: str) -> str:
    """The text of the script. `versions` stand in its head."""
    entry = found.discrepancy
    sides = [(entry.culprit, "repeat" if entry.oracle == "repeat" else "eager")]
    if entry.oracle in ("compiled", "saved"):
        sides.append((entry.culprit, entry.oracle))
    elif entry.other is not None and entry.oracle != "repeat":
        sides.append((entry.other, "eager"))
    listed = ", ".join(f"{package} {version}" for package, version in sorted(versions.items()))
    codes = "Exit code 1: it shows; 0: it does not; 2: it could not be run."
    head = f"Found with {listed}, Python {sys.version_info.major}.{sys.version_info.minor}."
    body = keras_body(found, sides) if found.test.network.dialect == "keras" else onnx_body(found)
    parts = [
        f'"""{_safe(title)}\n\n{_safe(entry.detail)}\n\n{head}\n{codes}\n"""\n',
        _IMPORTS,
        f"#: Each side: its name, how it is run, its interpreter (empty: this one), its environment.\nSIDES = {_sides(sides)}\n",
        body,
        _RUNNING.replace("SIDE_LIMIT", str(_limit(found))),
        _check(found),
        _MAIN.replace("SHOWN", SHOWN),
    ]
    return "\n\n".join(part.strip("\n") + "\n" for part in parts)


def file_name(found: Explanation) -> str:
    """A name for the script that depends on the finding's signature alone."""
    entry = found.discrepancy
    digest = hashlib.sha256(found.signature.encode()).hexdigest()[:8]
    words = re.sub(r"[^A-Za-z0-9]+", "_", f"{entry.oracle} {entry.culprit.name} {found.kind}")
    return f"{words}_{digest}.py".lower()


def verify_script(text: str) -> tuple[bool, str]:
    """Run a script in a fresh process: whether it shows the defect, and what it printed."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "finding.py"
        path.write_text(text, "utf-8")
        # Modules that a backend imports first (`with=`) are found where the campaign finds them.
        paths = [os.environ.get("PYTHONPATH", ""), str(Path.cwd())]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
        try:
            done = subprocess.run(
                [sys.executable, str(path)], env=environment, capture_output=True, text=True, errors="replace", timeout=SCRIPT_LIMIT
            )
        except subprocess.TimeoutExpired:
            return False, "the script did not end"
    # An accident in the script itself ends it with 1, too.
    return done.returncode == 1 and SHOWN in done.stdout, (done.stdout + done.stderr[-2000:]).strip()


def _limit(found: Explanation) -> int:
    """A side that is expected to hang need not be waited for that long."""
    return SIDE_LIMIT // 2 if found.discrepancy.symptom == "hangs" else SIDE_LIMIT


def _safe(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', "'")


def _sides(sides: list[tuple[BackendId, str]]) -> str:
    lines = [f"    {(str(backend), mode, backend.python, _environment(backend))!r},\n" for backend, mode in sides]
    return f"[\n{''.join(lines)}]"


def _environment(backend: BackendId) -> dict[str, str]:
    """What the process of a backend is started with: see `workers.process`."""
    found = {"OMP_NUM_THREADS": backend.toggle("threads", "1"), "CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "3"}
    if backend.name.startswith("keras:"):
        found["KERAS_BACKEND"] = backend.name.removeprefix("keras:")
    if backend.toggle("onednn"):
        found["TF_ENABLE_ONEDNN_OPTS"] = "0" if backend.toggle("onednn") == "off" else "1"
    return found


_IMPORTS = """
import base64
import hashlib
import json
import math
import os
import subprocess
import sys
import tempfile
from runpy import run_path

import ml_dtypes
import numpy as np
from numpy import inf, nan  # in the numbers below
"""

_RUNNING = '''
def describe(array):
    array = np.asarray(array)
    return {"dtype": array.dtype.name, "shape": list(array.shape), "values": array.astype(np.float64).ravel().tolist()}


def run_side(name, mode, path):
    """In a process of its own: compute, and write down the results or the error."""
    first = dict(part.split("=", 1) for part in name.partition(" ")[0].partition("?")[2].split("&") if part).get("with", "")
    for module in filter(None, first.split(",")):
        run_path(module) if module.endswith(".py") else __import__(module)
    try:
        results, promised = compute(name, mode)
        told = {"results": {key: describe(array) for key, array in results.items()}, "promised": promised}
    except ImportError as error:
        told = {"missing": str(error)}
    except Exception as error:
        told = {"error": type(error).__name__, "message": str(error)}
    with open(path, "w") as file:
        json.dump(told, file)


def start_side(name, mode, python, environment):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "results.json")
        command = [python or sys.executable, os.path.abspath(__file__), name, mode, path]
        try:
            done = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, timeout=SIDE_LIMIT)
        except subprocess.TimeoutExpired:
            return {"dead": "no answer within SIDE_LIMIT s"}
        try:
            with open(path) as file:
                return json.load(file)
        except (OSError, ValueError):
            said = done.stderr.decode(errors="replace")[-2000:]
            return {"dead": f"the process ended with code {done.returncode}", "output": said}


def values(result):
    return np.array(result["values"], np.float64).reshape(result["shape"])


def shown(told):
    if "results" not in told:
        return "  " + " ".join(f"{key}: {value}" for key, value in told.items())[:1500]
    lines = []
    for key, result in told["results"].items():
        some = ", ".join(f"{value:.9g}" for value in result["values"][:8])
        promised = told["promised"].get(key)
        extra = "" if promised is None else f" (promised {promised})"
        lines.append(f"  {key}: {result['dtype']}{result['shape']}{extra}: {some}{', ...' if len(result['values']) > 8 else ''}")
    return "\\n".join(lines)
'''

_MAIN = """
def main():
    told = [start_side(*side) for side in SIDES]
    for side, one in zip(SIDES, told):
        print(f"{side[0]} ({side[1]})")
        print(shown(one))
    if any("missing" in one for one in told):
        return 2
    there = shows(*told)
    print("SHOWN" if there else "the defect does not show")
    return 1 if there else 0


if __name__ == "__main__":
    if len(sys.argv) > 1:
        run_side(*sys.argv[1:])
    else:
        sys.exit(main())
"""


def _check(found: Explanation) -> str:
    """`shows`: whether the sides differ as they did when it was found."""
    entry = found.discrepancy
    arguments = "first" if entry.other is None and entry.oracle not in ("compiled", "saved") else "first, second"
    if entry.oracle == "death":
        arguments, body = "first, *others", 'return "dead" in first'
    elif entry.oracle == "exception":
        arguments, body = "first, *others", _exception(found)
    elif entry.oracle == "repeat":
        arguments, body = "first", _REPEATED
    elif any(f": {word}" in entry.symptom for word in ("refuses", "fails inside", "the process")):
        body = 'return "results" in first and "results" not in second'
    else:
        body = _difference(found)
    return f"{_constants(found)}def shows({arguments}):\n{indent(dedent(body).strip(), '    ')}\n"


_REPEATED = """
    results = first.get("results", {})
    return any(repr(results[key]) != repr(results[key + " again"]) for key in results if key + " again" in results)
"""


def _exception(found: Explanation) -> str:
    entry = found.discrepancy
    if entry.symptom == ACCEPTS_ILLEGAL:
        return 'return "results" in first and all("error" in one for one in others)'
    kind = entry.symptom.split(": ")[1]
    return f'return first.get("error") == {kind!r} and all("results" in one for one in others)'


def _constants(found: Explanation) -> str:
    """What the check measures against."""
    entry, numbers = found.discrepancy, found.numbers
    lines: list[str] = []
    if entry.oracle in ("value", *_SELF) and "largest" in numbers:
        gap = float(numbers["largest"])
        tolerance = _SHARE * gap if math.isfinite(gap) else 0.0
        lines.append(f"#: A part of the difference that was seen.\nTOLERANCE = {tolerance!r}")
    if entry.other is None and entry.oracle in ("value", "nan") and "position" in numbers:
        lines.append(
            f"#: One element as computed in float64.\nPOSITION, EXPECTED = {tuple(numbers['position'])!r}, {numbers['right']}"
        )
    if "expected_shape" in numbers and entry.other is None:
        lines.append(f"#: By the documentation of the layer.\nEXPECTED_SHAPE = {json.dumps(numbers['expected_shape'])}")
    return "\n".join(lines) + "\n\n\n" if lines else ""


def _difference(found: Explanation) -> str:
    entry = found.discrepancy
    pairs = 'all("results" in one for one in (first, second)) and any({} for key in first["results"] if key in second["results"])'
    a, b = 'first["results"][key]', 'second["results"][key]'
    if entry.symptom == PROMISED:
        return """
            for key, result in first.get("results", {}).items():
                promised = first["promised"].get(key)
                if promised is not None and (
                    len(promised) != len(result["shape"])
                    or any(p is not None and p != s for p, s in zip(promised, result["shape"]))
                ):
                    return True
            return False
        """
    if entry.oracle == "shape" or entry.symptom.endswith(": shape"):
        if entry.other is None and entry.oracle == "shape":
            return 'return "results" in first and all(part["shape"] != EXPECTED_SHAPE for part in first["results"].values())'
        return "return " + pairs.format(f"{a}['shape'] != {b}['shape']")
    if entry.oracle == "dtype" or entry.symptom.endswith(": dtype"):
        return "return " + pairs.format(f"{a}['dtype'] != {b}['dtype']")
    if entry.other is None and entry.oracle in ("value", "nan"):
        same = "value == EXPECTED or (math.isnan(value) and math.isnan(EXPECTED))"
        test = "abs(value - EXPECTED) > TOLERANCE" if entry.oracle == "value" else f"not ({same})"
        return f"""
            for result in first.get("results", {{}}).values():
                array = values(result)
                if array.ndim == len(POSITION) and all(i < n for i, n in zip(POSITION, array.shape)):
                    value = array[POSITION]
                    if {test}:
                        return True
            return False
        """
    if entry.oracle == "nan" or entry.symptom.endswith(": nan"):
        return f"""
            def special(result):
                return [repr(value) if not math.isfinite(value) else "" for value in result["values"]]

            return {pairs.format(f"special({a}) != special({b})")}
        """
    return f"""
        def differ(a, b):
            gap = np.abs(values(a) - values(b)) if a["shape"] == b["shape"] else np.array(inf)
            return bool(np.nanmax(gap, initial=0.0) > TOLERANCE)

        return {pairs.format(f"differ({a}, {b})")}
    """
