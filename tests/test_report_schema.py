"""The published schema and the JSON of every command: real reports validate, and no key of them is undocumented."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from examples.models import build
from jsonschema import Draft202012Validator

import tensorproof as package
from tensorproof.report import json_report
from tensorproof.report.schema import COMMANDS, schema
from tests.commands import tensorproof

pytestmark = pytest.mark.area("report schema")

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = ROOT / "examples"
VAE = ("build/demo/vae_loss.onnx", "--range", "z=-4:4", "--range", "x=0:1")
CROSS_ENTROPY = ("build/demo/naive_cross_entropy.onnx", "--range", "image=0:16", "--range", "label=one-hot")

#: A real run of every command, by the definition that its output is an instance of. Exit codes 0 and 1 are both fine.
RUNS: dict[str, tuple[str, tuple[object, ...]]] = {
    "check": ("report", ("check", *VAE)),
    "check, static, in float16": ("report", ("check", *VAE, "--precision", "float16", "--no-confirm", "--effort", "2")),
    "check, several": ("reports", ("check", "build/demo/vae_loss.onnx", "build/demo/stable_softmax.onnx")),
    "check, training": ("report", ("check", f"{EXAMPLES}/torch_vae.py:Loss", "--phase", "training")),
    "check, 16 bits": (
        "report",
        ("check", f"{EXAMPLES}/torch_vae.py:StableLoss", "--phase", "training", "--precision", "float16"),
    ),
    "check, JAX": ("report", ("check", f"{EXAMPLES}/jax_distance.py:triplet_loss", "--phase", "training")),
    "confirm": ("report", ("confirm", *VAE)),
    "confirm --system-test": ("report", ("confirm", *CROSS_ENTROPY, "--system-test", "--loss", "loss")),
    "fix": ("report", ("fix", *VAE, "--runs", "20")),
    "fix, declined": ("report", ("fix", "build/demo/transformer_float16.onnx", "--range", "*=-16:16", "--runs", "20")),
    "fix, program": ("report", ("fix", f"{EXAMPLES}/torch_vae.py:Loss", "--phase", "training", "--runs", "20")),
    "shapes": ("report", ("shapes", EXAMPLES / "digits.py")),
    "diff": ("report", ("diff", "build/demo/vae_loss.onnx", "repaired.onnx", "--range", "z=-4:4", "--range", "x=0:1")),
    "diff, formats": ("report", ("diff", "build/demo/stable_softmax.onnx", "build/demo/stable_softmax.onnx")),
    "plan": ("plan", ("plan", *CROSS_ENTROPY, "--precision", "float16", "--runs", "20", "--lists", "coreml")),
    "expose": ("report", ("expose", EXAMPLES / "torch_logistic.py", "--range", "x=-50:50", "--runs", "1", "--iterations", "20")),
    "expose --function": ("report", ("expose", "--function", "torch.sqrt", "--args", "input=float32[2] in -1:1")),
    "fuzz": (
        "campaign",
        ("fuzz", "--tests", "4", "--backend", "onnxruntime", "--backend", "onnx-reference", "--layer", "Relu", "--out", "fuzz"),
    ),
    "fuzz --level input": (
        "searches",
        (
            "fuzz",
            "--level",
            "input",
            "--backend",
            "keras:torch",
            "--backend",
            "keras:jax",
            "--evaluations",
            "2",
            "--out",
            "searched",
        ),
    ),
}


def strict(part: Any) -> Any:
    """The schema without tolerance for keys that it does not name."""
    if isinstance(part, list):
        return [strict(item) for item in part]
    if not isinstance(part, dict):
        return part
    closed = {key: strict(value) for key, value in part.items()}
    if isinstance(part.get("properties"), dict) and part.get("type") == "object":
        closed.setdefault("additionalProperties", False)
    return closed


def complaints(content: Any, definition: str) -> Iterator[str]:
    known = strict(schema())
    wanted = {"$ref": f"#/$defs/{definition}", "$defs": known["$defs"]}
    for error in Draft202012Validator(wanted).iter_errors(content):
        # Where nothing of an `anyOf` fits, what got farthest says why.
        while error.context:
            error = max(error.context, key=lambda nested: len(nested.absolute_path))
        yield f"{error.json_path}: {error.message[-200:]}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("models")
    build(place / "build/demo")
    assert (
        tensorproof(
            "fix", place / VAE[0], *VAE[1:], "--runs", "20", "--apply", place / "repaired.onnx", "--witnesses", place / "w"
        ).code
        == 0
    )
    return place


def test_the_schema_is_one() -> None:
    Draft202012Validator.check_schema(schema())
    assert json.loads(json_report.dumps(schema())) == schema()


def test_every_command_that_writes_json_has_a_run() -> None:
    assert set(COMMANDS) <= set(RUNS)
    for name, definition in COMMANDS.items():
        assert RUNS[name][0] == definition


@pytest.mark.parametrize("name", RUNS)
def test_a_real_report_is_as_documented(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    definition, words = RUNS[name]
    result = tensorproof(*words, "--format", "json")
    assert result.code in (0, 1), result.err
    assert list(complaints(json.loads(result.out), definition)) == []


def test_a_map_of_the_model_is_as_documented(folder: Path) -> None:
    report = package.check(folder / VAE[0], ranges={"z": (-4, 4), "x": (0, 1)}, confirm=False, model_map=True)
    content = json.loads(json_report.dumps(report.to_json(model_map=True)))
    assert content["model_map"]["nodes"]
    assert list(complaints(content, "report")) == []


def test_a_watched_run_is_as_documented() -> None:
    import torch

    model = torch.nn.Linear(2, 1)
    with pytest.warns(Warning, match="NUM"), package.watch(model) as watcher:
        torch.sqrt(model(torch.zeros(1, 2)) * 0).sum().backward()
    report = watcher.report()
    assert report.findings
    assert list(complaints(json.loads(json_report.render([report])), "report")) == []


def test_a_key_that_is_not_documented_is_noticed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    content = json.loads(tensorproof("fix", *VAE, "--runs", "20", "--format", "json").out)
    assert list(complaints(content, "report")) == []
    for place in (
        lambda report: report,
        lambda report: report["coverage"],
        lambda report: report["assumptions"],
        lambda report: report["findings"][0],
        lambda report: report["findings"][0]["fix"]["verification"]["gradients"],
    ):
        changed = copy.deepcopy(content)
        place(changed)["unheard_of"] = 1
        assert list(complaints(changed, "report"))
    Draft202012Validator(schema()).validate(content | {"unheard_of": 1})  # readers have to tolerate additions
