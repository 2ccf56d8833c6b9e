"""Models of Keras on its three backends: what is read of them, what is found, scripts that replay it, and files that are refused."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.area("keras models")

ROOT = Path(__file__).parents[1]
BACKENDS = ("tensorflow", "jax", "torch")
PROGRAM = ROOT / "tests" / "fixtures" / "keras" / "event_rates.py"
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}

each_backend = pytest.mark.parametrize("backend", BACKENDS)

#: The layers whose operators each model must have; PyTorch has an operator for a whole LSTM, which no cell is called for.
LAYERS = {
    "nested": {"outer/classes", "outer/inner/gate", "outer/inner/norm", "outer/memory", "outer/memory/lstm_cell", "outer/shared"},
    "repeated": {"repeated/both", "repeated/first/gate", "repeated/first/out", "repeated/second/gate", "repeated/second/out"},
    "of_two": {"two/mean", "two/scaled", "two/words"},
}
INPUTS = {"nested": {"x": [5, 3]}, "repeated": {"x": [4]}, "of_two": {"tokens": [6], "scale": [1]}}

#: What is found in models with a defect: rule, operator, phase, layer, where it is seen.
DEFECTS = {
    "entropy": ("NUM101", "Log", "forward", "classifier", "output"),
    "length": ("NUM401", "Sqrt", "backward", "length", "gradient"),
    "squared": ("NUM202", "Mul", "forward", "compile_loss/mean_squared_error", "output"),
    "live": ("NUM201", "Exp", "forward", "counts/rates", "output"),
    "program": ("NUM201", "Exp", "forward", "rates_1", "output"),
}


def run(command: list[str], **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, env={**os.environ, **ENVIRONMENT, **environment}, cwd=ROOT, capture_output=True, text=True)


def printed(command: list[str], **environment: str) -> Any:
    """What a program prints in its last line, as JSON."""
    done = run(command, PYTHONPATH=os.pathsep.join([str(ROOT / "src"), str(ROOT)]), **environment)
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="session")
def once(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, Callable[[Path], Any]], Any]:
    """Gives what a function makes in a folder of its own: made once for all workers."""
    base = tmp_path_factory.getbasetemp()
    shared = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "keras_models"

    def made(name: str, make: Callable[[Path], Any]) -> Any:
        folder = shared / name
        folder.mkdir(parents=True, exist_ok=True)
        with (shared / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            result = shared / f"{name}.json"
            if not result.exists():
                result.write_text(json.dumps(make(folder)))
            return json.loads(result.read_text())

    return made


@pytest.fixture
def seen(once: Any, backend: str) -> dict[str, Any]:
    """What `tests.keras_checks` saw on a backend."""

    def check(folder: Path) -> Any:
        return printed([sys.executable, "-m", "tests.keras_checks", str(folder)], KERAS_BACKEND=backend, GAIN="50")

    return once(backend, check)


def defects(outcome: dict[str, Any]) -> list[dict[str, Any]]:
    """The findings that a run confirmed."""
    return [finding for finding in outcome["findings"] if finding["verdict"] == "confirmed"]


# -- what is read ------------------------------------------------------------------------------------------------------


@each_backend
@pytest.mark.parametrize("name", LAYERS)
def test_a_file_is_read_with_its_layers_weights_and_inputs(backend: str, name: str, seen: dict[str, Any]):
    model = seen[name]
    assert set(model["modules"]) == LAYERS[name] - ({"outer/memory/lstm_cell"} if backend == "torch" else set())
    assert model["weights"] == model["expected weights"] != []
    assert model["wrong values"] == []
    assert model["trainable"] == model["expected trainable"] != []
    assert model["inputs"] == INPUTS[name]


@each_backend
@pytest.mark.parametrize("name", LAYERS)
def test_safe_models_are_silent_and_analysed_as_files_and_live(backend: str, name: str, seen: dict[str, Any]):
    kinds = [seen[name][kind] for kind in ("file", "live", "training") if kind in seen[name]]
    assert len(kinds) == (3 if name == "repeated" else 2)
    for outcome in kinds:
        assert outcome["findings"] == []
        assert outcome["not analysed"] == [] and outcome["complete"]
        runs_on = {"tensorflow": "TensorFlow", "jax": "JAX", "torch": "PyTorch"}[backend]
        assert f"Keras runs on {runs_on}" in outcome["notes"]


@each_backend
def test_ranges_contain_what_keras_computes(backend: str, seen: dict[str, Any]):
    model = seen["nested"]
    assert model["inside"] and model["is a bound"]
    assert model["shown"], "the runner does not show what Keras computes"


# -- what is found -----------------------------------------------------------------------------------------------------


@each_backend
@pytest.mark.parametrize("name", DEFECTS)
def test_defects_are_confirmed_at_their_layers(backend: str, name: str, seen: dict[str, Any]):
    outcome = seen[name]
    assert [(f["rule"], f["op"], f["phase"], f["module"], f["reaches"]) for f in defects(outcome)] == [DEFECTS[name]]
    # Behind squares that overflow, their sum may, too.
    assert {f["rule"] for f in outcome["findings"]} - {DEFECTS[name][0]} <= ({"NUM203"} if name == "squared" else set())
    assert outcome["not analysed"] == []
    if name == "program":
        line = 1 + next(index for index, text in enumerate(PROGRAM.read_text().splitlines()) if text.endswith("# BUG"))
        assert [(f["file"], f["line"]) for f in defects(outcome)] == [(PROGRAM.name, line)]


@each_backend
def test_an_epsilon_is_lost_in_the_graphs_of_tensorflow_alone(backend: str, seen: dict[str, Any]):
    assert [f["rule"] for f in defects(seen["lost"])] == (["NUM101"] if backend == "tensorflow" else [])
    assert len(seen["lost"]["findings"]) == len(defects(seen["lost"]))


# -- scripts that replay it --------------------------------------------------------------------------------------------


def script(seen: dict[str, Any], name: str) -> str:
    return str(defects(seen[name])[0]["script"])


@pytest.fixture
def codes(once: Any, backend: str, seen: dict[str, Any]) -> dict[str, list[Any]]:
    """The exit codes of the scripts, and the last lines that they printed, in a process without tensorproof."""

    def replay(folder: Path) -> Any:
        models = Path(script(seen, "entropy")).parents[1]
        jobs: list[list[str]] = [[name, "run", script(seen, name)] for name in DEFECTS]
        if backend == "tensorflow":
            jobs.append(["lost", "run", script(seen, "lost")])
        jobs.append(["no file", "run", script(seen, "entropy"), str(models / "nowhere.keras")])
        jobs.append(["another model", "run", script(seen, "entropy"), str(models / "of_two.keras")])
        jobs.append(["given length", "run", script(seen, "length"), str(models / "length_safe.keras")])
        jobs.append(["live repaired", "run", script(seen, "live"), str(models / "entropy_safe.keras")])
        for name in ("entropy", "length", "squared"):
            jobs.append([name, "copy", str(models / f"{name}_safe.keras"), str(models / f"{name}.keras")])
            jobs.append([f"repaired {name}", "run", script(seen, name)])
        listed = folder / "jobs.json"
        listed.write_text(json.dumps(jobs))
        done = run([sys.executable, "-I", str(ROOT / "tests" / "keras_replays.py"), str(listed)], GAIN="0.01")
        assert done.returncode == 0, done.stderr[-4000:]
        return {label: rest for label, *rest in json.loads(done.stdout.splitlines()[-1])}

    return once(f"{backend}_codes", replay)


@each_backend
@pytest.mark.parametrize("name", DEFECTS)
def test_scripts_fail_while_the_failure_is_there(backend: str, name: str, codes: dict[str, list[Any]]):
    """The program builds other weights in this process: those of the check are kept beside the script."""
    code, line = codes[name]
    assert (code, line.partition(": ")[0]) == (1, "the failure is there"), line


@each_backend
def test_scripts_pass_when_the_file_is_replaced_by_a_repaired_one(backend: str, codes: dict[str, list[Any]]):
    for label in ("repaired entropy", "repaired length", "repaired squared", "given length", "live repaired"):
        code, line = codes[label]
        assert (code, line.partition(": ")[0]) == (0, "the failure is NOT there"), (label, line)


@each_backend
def test_scripts_that_cannot_run_the_model_say_so(backend: str, codes: dict[str, list[Any]]):
    for label in ("no file", "another model"):
        code, line = codes[label]
        assert code == 2 and "Traceback" not in line, (label, line)


@pytest.mark.parametrize("backend", ["tensorflow"])
def test_a_script_sees_what_graphs_of_tensorflow_compute(backend: str, codes: dict[str, list[Any]]):
    """Eagerly, which is how scripts look at operators, the epsilon is there."""
    assert codes["lost"] == [1, "the failure is there: NUM101 log-of-nonpositive: 1 of 2 results are not finite"]


@each_backend
def test_a_script_is_a_program_of_its_own(backend: str, seen: dict[str, Any]):
    """In a process of its own, the exit code is that of the script; under pytest, the test fails."""
    program = [sys.executable, "-I", script(seen, "live")]
    assert run(program).returncode == 1
    if backend == "jax":
        done = run([sys.executable, "-I", "-m", "pytest", "-q", "-p", "no:cacheprovider", script(seen, "live")])
        assert done.returncode == 1 and "1 failed" in done.stdout, done.stdout


# -- files that are refused ---------------------------------------------------------------------------------------------


@pytest.fixture
def refused(once: Any) -> dict[str, dict[str, Any]]:
    """What the command line says about the files of `tests.keras_files`."""

    def check(folder: Path) -> Any:
        given = folder / "given"
        given.mkdir()
        found = printed([sys.executable, "-m", "tests.keras_files", str(given)], KERAS_BACKEND="jax")
        return {**found, "beside": sorted(path.name for path in folder.iterdir() if path != given)}

    return once("files", check)


def not_refused(outcomes: dict[str, dict[str, Any]], words: dict[str, str]) -> dict[str, Any]:
    """The files about which the command line does not say one clear line and exit 2, or whose line lacks its words."""
    wrong: dict[str, Any] = {}
    for name, outcome in outcomes.items():
        line = outcome["err"].rstrip("\n")
        one_line = line.startswith("tensorproof: ") and "\n" not in line and f"{name}: " in line and "Traceback" not in line
        if outcome["code"] != 2 or outcome["out"] or not one_line or outcome["marker"] or words.get(name, "") not in line:
            wrong[name] = outcome
    return wrong


def test_good_files_of_both_formats_are_read(refused: dict[str, Any]):
    outcomes = refused["good_files"]
    assert set(outcomes) == {"good.keras", "good.h5", "joined.keras", "joined.h5", "plain_names.h5"}
    for name, outcome in outcomes.items():
        assert outcome["code"] == 0 and outcome["err"] == "", (name, outcome)
        assert "findings  none" in outcome["out"] and "not analysed" not in outcome["out"], name


def test_lambda_layers_are_refused_without_trust(refused: dict[str, Any]):
    outcomes = refused["lambda_files"]
    assert set(outcomes) == {"lambda.keras", "lambda_within.keras", "lambda_around.keras", "lambda_old.h5"}
    assert not_refused(outcomes, dict.fromkeys(outcomes, "Lambda layer, which runs code of its own")) == {}


def test_lambda_layers_are_analysed_with_trust(refused: dict[str, Any]):
    """Their code runs: the marker is there, and the division that they hold is found."""
    assert set(refused["trusted_lambdas"]) == set(refused["lambda_files"])
    for name, outcome in refused["trusted_lambdas"].items():
        assert outcome["code"] == 0 and outcome["marker"] and "NUM103" in outcome["out"], (name, outcome)


#: What is said about objects that are no part of Keras' models.
CODE = {
    "module_class.keras": "payload_of_a_file.Evil, which is not Keras' own",
    "os_system.keras": "the class os.system",
    "popen.keras": "the class subprocess.Popen",
    "tfsm.keras": "TFSMLayer",
    "torch_module.keras": "TorchModuleWrapper",
    "jax_layer.keras": "JaxLayer",
    "flax_layer.keras": "FlaxLayer",
    "registered.keras": "'package>Evil'",
    "unknown.keras": "keras.layers.NoSuchLayer",
    "eval.keras": "the function builtins.eval",
    "exec.keras": "the function builtins.exec",
    "system.keras": "the function os.system",
    "get_file.keras": "the function keras.utils.get_file",
    "load_model.keras": "the function keras.saving.load_model",
    "marshalled.keras": "__lambda__, which is code",
    "path_lookup.keras": "a file to read (vocabulary = '/etc/hostname')",
    "path_vectors.keras": "a file to read (vocabulary = '/etc/hostname')",
    "path_numbers.keras": "a file to read (vocabulary = '/etc/hostname')",
    "address.keras": "the address 'https://example.org/words'",
    "old_class.h5": "payload_of_a_file.Evil, which is not Keras' own",
    "old_unknown.h5": "'Evil', no class of Keras",
}


def test_nothing_that_a_file_names_is_run(refused: dict[str, Any]):
    outcomes = refused["code_files"]
    assert set(CODE) <= set(outcomes)
    assert not_refused(outcomes, CODE) == {}


#: What is said about archives and weights that are no model's.
ARCHIVES = {
    "escape.keras": "'../escape'",
    "absolute.keras": "/markers/absolute'",
    "assets_escape.keras": "'assets/../../markers/assets_escape'",
    "drive.keras": "no part of a model",
    "stranger.keras": "'run.py'",
    "pickled.keras": "'model.weights.npz'",
    "twice.keras": "'config.json' twice",
    "bomb.keras": "would grow",
    "bomb_metadata.keras": "would grow",
    "bombs.keras": "would grow",
    "crowd.keras": "10004 files",
    "deep.keras": "no JSON",
    "nested.keras": "nested deeper",
    "huge.keras": "more weights than the 16",
    "huge_table.keras": "more weights than the 16",
}
WEIGHTS = {
    "linked.keras": "stand elsewhere",
    "soft_link.keras": "stand elsewhere",
    "external.keras": "in another file",
    "virtual.keras": "in another file",
    "enormous.keras": "would grow",
    "deep.keras": "nested deeper",
    "of_another_shape.keras": "shape",
    "missing.keras": "expected 2 variables",
    "of_text.keras": "dense",
    "empty_weights.keras": "expected 2 variables",
    "old_linked.h5": "stand elsewhere",
}


def test_archives_that_are_no_models_are_refused(refused: dict[str, Any]):
    assert set(refused["archive_files"]) == set(ARCHIVES)
    assert not_refused(refused["archive_files"], ARCHIVES) == {}
    assert refused["beside"] == [], "something was written outside of the folder"


def test_weights_stand_in_the_file_and_fit_the_model(refused: dict[str, Any]):
    assert set(refused["weight_files"]) == set(WEIGHTS)
    assert not_refused(refused["weight_files"], WEIGHTS) == {}


def test_damaged_files_and_files_of_other_kinds_are_refused(refused: dict[str, Any]):
    outcomes = refused["damaged_files"]
    cut = {name for name in outcomes if name.startswith("cut_")}
    changed = {name for name in outcomes if name.startswith("changed_")}
    assert len(cut) == 80 and len(changed) == 60 and len(outcomes) > 170
    # A change of some bytes may leave a file that can be read.
    harmless = {name for name in changed if outcomes[name]["code"] in (0, 1) and outcomes[name]["err"] == ""}
    assert len(harmless) < len(changed)
    words = {"version_two.keras": "2.15.0", "version_missing.keras": "which version", "only.weights.h5": "without a model"}
    words |= {f"without_{name}.keras": f"has no {name}" for name in ("metadata", "config", "model")}
    words |= {"folder.keras": "a folder", "nowhere.keras": "no such file", "bad_units.keras": "units"}
    assert not_refused({name: outcome for name, outcome in outcomes.items() if name not in harmless}, words) == {}


def test_errors_are_one_line_with_trust_too(refused: dict[str, Any]):
    assert len(refused["trusted"]) == 3
    assert not_refused(refused["trusted"], {"unknown.keras": "NoSuchLayer"}) == {}


def test_a_loss_that_may_run_code_is_left_out(refused: dict[str, Any]):
    for name, outcome in refused["training_files"].items():
        assert outcome["code"] == 0 and not outcome["marker"], (name, outcome)
        said = "the loss of the model is not loaded" in " ".join(outcome["out"].split())
        assert said == name.startswith("loss_"), (name, outcome["out"])
