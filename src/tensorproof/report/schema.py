"""The JSON Schema of what `--format json` writes: every key with what it means.

It stands beside the code that writes the keys, and tests hold both against each other: a real report of each command must
validate, and a key that is not here fails. Readers should take unknown keys for granted: keys may be added within one
`schema_version`, never renamed.
"""

from __future__ import annotations

from typing import Any, get_args

from tensorproof.compare.judging import Opinion
from tensorproof.findings import SCHEMA_VERSION, Reaches, Verdict
from tensorproof.rules.rule import Phase, Severity

Schema = dict[str, Any]

#: The definition that the output of each command is an instance of; `check` of several models writes `reports`.
COMMANDS: dict[str, str] = {
    "check": "report",
    "confirm": "report",
    "fix": "report",
    "shapes": "report",
    "expose": "report",
    "diff": "report",
    "plan": "plan",
    "fuzz": "campaign",
    "fuzz --level input": "searches",
}


def _object(description: str, required: Schema, optional: Schema | None = None) -> Schema:
    return {
        "description": description,
        "type": "object",
        "properties": {**required, **(optional or {})},
        "required": list(required),
    }


def _map(description: str, values: Schema) -> Schema:
    return {"description": description, "type": "object", "additionalProperties": values}


def _list(description: str, items: Schema) -> Schema:
    return {"description": description, "type": "array", "items": items}


def _of(name: str, description: str = "") -> Schema:
    return {"$ref": f"#/$defs/{name}"} | ({"description": description} if description else {})


def _or_null(schema: Schema) -> Schema:
    stated = {"description": schema["description"]} if "description" in schema else {}
    return {**stated, "anyOf": [{k: v for k, v in schema.items() if k != "description"}, {"type": "null"}]}


def _text(description: str) -> Schema:
    return {"description": description, "type": "string"}


def _count(description: str) -> Schema:
    return {"description": description, "type": "integer", "minimum": 0}


def _flag(description: str) -> Schema:
    return {"description": description, "type": "boolean"}


def _seconds(description: str) -> Schema:
    return {"description": description, "type": "number", "minimum": 0}


def _one_of(description: str, *values: str) -> Schema:
    return {"description": description, "enum": list(values)}


_NAME: Schema = {"type": "string"}
_NUMBER: Schema = {
    "description": "A number; infinities and NaN, which JSON does not have, are text.",
    "anyOf": [{"type": "number"}, {"enum": ["inf", "-inf", "nan"]}],
}
_RANGE: Schema = {
    "description": "The smallest and the largest number.",
    "type": "array",
    "items": _of("number"),
    "minItems": 2,
    "maxItems": 2,
}

_LOCATION = _object(
    "A place in the user's source. Lines and columns count from 1; of a model, `file` is what the model claims.",
    {
        "file": _or_null(_text("The file.")),
        "line": _or_null(_count("The line.")),
        "column": _or_null(_count("The column, in characters.")),
        "end_line": _or_null(_count("The last line.")),
        "end_column": _or_null(_count("The first column that no longer belongs to the place.")),
        "cell": _or_null(_count("The cell of a notebook; lines are those of the cell then.")),
        "module": _or_null(_text("The module of the network, such as `decoder.0`.")),
        "text": _or_null(_text("The line itself, where the source was read.")),
    },
)

_DEVIATION = _object(
    "How far two results are apart where the original is finite.",
    {
        "elements": _count("How many numbers were compared."),
        "ulp": _of("number", "The largest difference in units of the last place."),
        "relative": _of("number", "The largest relative difference."),
        "excess_ulp": _or_null(
            _of("number", "By how much the repair is farther from the exact value than the original, where that is known.")
        ),
    },
)

_FIX = _object(
    "The repair of a finding, by `fix`. Where none passed, `kind` is null and `declined` says why.",
    {
        "kind": _or_null(_text("rewrite, guard, precondition, ...")),
        "declined": _list(
            "What was tried and not shown.", _object("", {"name": _text("The repair."), "reason": _text("Why not.")})
        ),
    },
    {
        "name": _text("The name of the repair."),
        "safe": _flag("Whether it changes neither values nor derivatives for the worse."),
        "summary": _text("What it does."),
        "because": _text("The algebra or the number behind it."),
        "cost": _text("What the verification measured, in words."),
        "applied": _flag("Whether it is part of the repaired model."),
        "along_with": _or_null(_text("The node of another finding, whose repair mended this one, too.")),
        "apply": _text("The command that applies this repair alone."),
        "verification": _object(
            "What was seen before the repair was shown.",
            {
                "proven": _flag("The scan of the whole patched model no longer has the finding, and no new one."),
                "witness_replayed": _or_null(_flag("The failing input gives finite values; null if there was none.")),
                "runs": _count("Points of the declared ranges that were run."),
                "values": _DEVIATION,
                "outputs": _DEVIATION,
                "gradients": _object(
                    "Derivatives, compared where the original's are finite and not zero.",
                    {
                        "points": _count("Points that were compared."),
                        "dead": _count("Derivatives that became zero."),
                        "worse": _count("Derivatives that are farther from the exact ones."),
                        "at_witness": _or_null(_text("At the failing input: alive, zero or not finite.")),
                        "not_compared": _or_null(_text("Why nothing was compared.")),
                    },
                ),
            },
        ),
    },
)

_FINDING = _object(
    "One defect.",
    {
        "rule": _text("The code of the rule, such as NUM101."),
        "name": _text("Its name."),
        "severity": _one_of("Its severity.", *get_args(Severity)),
        "node": _text("The node of the model; in source, the text of the line."),
        "op": _text("The operator, or the function that is called."),
        "phase": _one_of("Whether a value or a gradient fails.", *get_args(Phase)),
        "verdict": _one_of("How sure it is.", *(str(verdict) for verdict in Verdict)),
        "target": _text("The runtime whose arithmetic is assumed."),
        "format": _text("The number format of the operand."),
        "limit": _or_null(_of("number", "The end of the format or of the operator's domain that the range is measured against.")),
        "reaches": {"description": "Where the bad value of a confirmed finding is seen.", "enum": [*get_args(Reaches), None]},
        "consequence_of": _list("The nodes of the findings that it merely follows from.", _NAME),
        "operand": _text("The value whose range is meant."),
        "range": _or_null(_of("range", "What the analysis proves of the operand (of the result, for overflow); null in source.")),
        "reached": _or_null(_of("range", "The worst that real runs came to.")),
        "location": _or_null(_of("location", "The user's own line.")),
        "related": _list(
            "Other places that belong to it.",
            _object("", {"location": _of("location"), "message": _text("What happens there.")}),
        ),
        "trail": _list(
            "How the range came about, from an input to the operand.",
            _object("", {"value": _text("The value."), "op": _text("Its operator."), "range": _of("range")}),
        ),
        "witness": _or_null(_text("The file with the input that fails.")),
        "replay": _or_null(_text("The program that replays it.")),
        "fix": _or_null(_of("fix", "Its repair.")),
        "edits": _list(
            "Changes of the source that mend it; alternatives.",
            _object(
                "",
                {
                    "title": _text("What the change does."),
                    "location": _of("location"),
                    "text": _text("What takes the place of the text there."),
                },
            ),
        ),
        "message": _text("One sentence."),
    },
)

_INPUT = _object(
    "What an input may be.",
    {"range": _of("range"), "source": _text("Who says so: declared, default, samples, observed, ...")},
    {
        "domain": _text("box, values, one-hot, simplex, mask, unit-norm or channels."),
        "shape": _or_null(_list("Its shape.", {"type": "integer"})),
        "text": _text("The same in words."),
    },
)

_JUDGEMENT: Schema = {
    "verdict": _one_of("What the difference is.", *(str(opinion) for opinion in Opinion)),
    "symptom": _text("value, nan, shape, dtype, ..., or nothing."),
    "units": _of("number", "The difference in units of the format."),
    "largest": _of("number", "The largest absolute difference."),
    "position": _list("The element at which it is.", {"type": "integer"}),
    "left_value": _or_null(_of("number", "The element on the left.")),
    "right_value": _or_null(_of("number", "The element on the right.")),
    "reference": _or_null(_of("number", "The element in float64, where that could be run.")),
    "culprit": _text("The side that is off, where that is known."),
    "detail": _text("The same in words."),
}

_COMPARISON = _object(
    "What `diff` found.",
    {
        "left": _text("The first model and what ran it."),
        "right": _text("The second one."),
        "verdict": _JUDGEMENT["verdict"],
        "formats": _list("The number formats of both.", _NAME),
        "outputs": _list(
            "Each pair of outputs.",
            _object(
                "",
                {
                    "left": _text("The output of the first model."),
                    "right": _text("The output of the second one."),
                    "formats": _list("Their number formats.", _NAME),
                    **_JUDGEMENT,
                    "typical_units": _of("number", "The typical difference in units of the format."),
                    "relative_error": _of("number", "The norm of the difference over that of the output."),
                    "metric": _text("top-1 or cosine."),
                    "score": _of("number", "The agreement by that metric."),
                },
            ),
        ),
        "first": _or_null(
            _object(
                "The first operator at which they part.",
                {
                    "left": _text("The value in the first model."),
                    "right": _text("The value in the second one."),
                    "left_operator": _text("Its operator there."),
                    "right_operator": _text("Its operator here."),
                    "node": _text("The node."),
                    "module": _text("The module of the network."),
                    "file": _or_null(_text("The user's file.")),
                    "line": _or_null(_count("The user's line.")),
                    "operands": _list("The values that it is computed from.", _NAME),
                    "own_doing": _flag("Whether it differs on equal operands, too."),
                    "alone": _or_null(_object("The judgement on equal operands.", _JUDGEMENT)),
                    "left_failure": _text("What the left one fails with."),
                    "right_failure": _text("What the right one fails with."),
                },
                _JUDGEMENT,
            )
        ),
        "failure": _object("Why a model did not run.", {"left": _text("The first one."), "right": _text("The second one.")}),
        "points": _count("Inputs that were run."),
        "evaluations": _count("Evaluations of the search."),
        "found_by": _text("samples, search, ..."),
        "values": _count("Values of the second model."),
        "aligned": _count("How many of them have a partner in the first one."),
        "bytes_held": _count("The most bytes of values that were held at once."),
        "remarks": _list("What else is to be known.", _NAME),
    },
)

_SUSPECT = _object(
    "An operator that can fail, as `expose` saw it.",
    {
        "name": _text("The operator and its line."),
        "operator": _text("The operator."),
        "line": _or_null(_count("The line.")),
        "rule": _text("The rule that it would fall under."),
        "phase": _one_of("Whether a value or a gradient would fail.", *get_args(Phase)),
        "distance": _or_null(_of("number", "How near it came to its failure.")),
        "evaluations": _count("Gradients that were spent on it."),
    },
    {"proven_safe": _flag("Whether the static analysis proves that it cannot fail.")},
)

_ASSUMPTIONS = _object(
    "What the verdicts rest on. Which keys there are depends on the command.",
    {},
    {
        "inputs": _map("What inputs may be, by name.", _of("input")),
        "weights": _text("What weights may be: fixed, init, as trained, ..."),
        "weight_ranges": _map("Weights that are ranges.", _of("input")),
        "dimensions": _map("The sizes of symbolic dimensions.", {"type": ["integer", "array"], "items": {"type": "integer"}}),
        "notes": _list("What else is assumed.", _NAME),
        "target": _text("The runtime, with the properties of its arithmetic."),
        "abstraction": _map("The effort, and what the first pass keeps.", {"type": ["string", "integer"]}),
        "confirm": _list("What could not be run, or not in full.", _NAME),
        "training": _object(
            "Of training.",
            {},
            {
                "loss": _text("The output that training makes small."),
                "rate": _of("number", "The learning rate."),
                "steps": _count("Steps on the example."),
                "batch": _or_null(_count("Samples of the example.")),
                "format": _text("The format that a step was run in."),
                "loss_scale": _or_null(_of("number", "The loss scale that keeps gradients.")),
            },
        ),
        "comparison": _of("comparison"),
        "context": _text("How `shapes` tells calls apart."),
        "values": _text("What `shapes` keeps where paths meet."),
        "script": _text("The script that was run."),
        "function": _text("The function that was called."),
        "arguments": {
            "description": "Arguments of the script, or of the function.",
            "type": ["array", "object"],
            "items": _NAME,
            "additionalProperties": _NAME,
        },
        "method": _text("The method of the search."),
        "seed": _count("The seed."),
        "runs": _count("Runs of the script."),
        "iterations": _count("Steps of training."),
        "suspects": _list("Operators that can fail.", _of("suspect")),
        "versions": _map("Versions of frameworks.", _NAME),
    },
)

_REPORT = _object(
    "The result of one check.",
    {
        "schema_version": {"description": "The version of this contract.", "const": SCHEMA_VERSION},
        "model": _text("What was checked, as the user named it."),
        "target": _text("The runtime whose arithmetic is assumed."),
        "precision": _or_null(_text("The format that the model was converted into.")),
        "assumptions": _of("assumptions"),
        "coverage": _object(
            "How much of the model the verdicts cover.",
            {
                "nodes": _count("Nodes; of source, tensors that it creates."),
                "checkable": _count("Nodes that can fail at all."),
                "checked": _count("Those of them that were analysed."),
                "not_analysed": _list(
                    "Nodes about which nothing is known.",
                    _object("", {"node": _text("The node."), "op": _text("Its operator."), "reason": _text("Why.")}),
                ),
                "remarks": _list("What else was left out.", _NAME),
                "complete": _flag("Whether nothing was left out."),
            },
        ),
        "proven_safe": _list("Nodes that cannot fail under the assumptions.", _NAME),
        "proven_safe_if": _map("Nodes that cannot fail if the named roots are repaired.", _list("", _NAME)),
        "proven_by": _map("The step of the refinement that proved a node.", _NAME),
        "findings": _list("The defects, roots first.", _of("finding")),
        "suppressed": _count("Findings that rules, patterns or a baseline leave out."),
        "files": _or_null(_list("The source files that were analysed; null for a model.", _NAME)),
        "errors": _list("One line for each file or program that could not be analysed.", _NAME),
        "time": _map("Seconds by part.", _seconds("")),
    },
    {"model_map": _or_null(_of("model_map", "The model node by node; of `Report.to_json(model_map=True)` alone."))},
)

_MAPPED_VALUE = _object(
    "A value of the model.",
    {
        "name": _text("Its name."),
        "format": _or_null(_text("Its number format.")),
        "shape": _or_null(_list("Its shape.", {"type": ["integer", "null"]})),
        "range": _or_null(_of("range", "What the analysis proves of it.")),
        "may_be_nan": _flag("Whether it may be NaN."),
        "headroom": _or_null(_of("number", "Bits between its bound and the largest number of its format.")),
    },
)

_MODEL_MAP = _object(
    "The model, node by node.",
    {
        "inputs": _list("Its inputs.", _MAPPED_VALUE),
        "outputs": _list("The names of its outputs.", _NAME),
        "nodes": _list(
            "Each node before those of its body and after those that it reads.",
            _object(
                "",
                {
                    "name": _text("The node."),
                    "op": _text("Its operator."),
                    "scope": _text("The path of its module, parted by `/`."),
                    "location": _or_null(_of("location", "The user's line.")),
                    "reads": _list("The values that it reads.", _NAME),
                    "sources": _list("The indices of the nodes that it reads from.", {"type": "integer"}),
                    "outputs": _list("What it computes.", _MAPPED_VALUE),
                    "verdict": _text("What is known of it."),
                    "inside": _or_null(_count("The index of the node in whose body it stands.")),
                },
            ),
        ),
    },
)

_STAYS = _object("A node that stays in float32.", {"name": _text("The node."), "op": _text("Its operator."), "why": _text("Why.")})

_PLAN = _object(
    "What `plan` found.",
    {
        "model": _text("The model."),
        "precision": _text("float16 or bfloat16."),
        "guarantee": _one_of("What the plan rests on.", "sampled", "proven"),
        "kept": _list("Nodes that were chosen to stay in float32.", _STAYS),
        "fixed": _list("Nodes that have no form in the precision.", _STAYS),
        "floating_nodes": _count("All floating nodes."),
        "share": _of("number", "The part of them that stays in float32."),
        "samples": _count("Samples that the search ran."),
        "tolerance": _of("number", "How far outputs may be from float32, in epsilons of the precision."),
        "plain_failures": _or_null(_count("Samples that fail if no node is kept.")),
        "check": _or_null(
            _object(
                "The plan on fresh samples.",
                {
                    "samples": _count("How many."),
                    "failures": _count("How many fail."),
                    "absolute": _or_null(_of("number", "The largest absolute difference from float32.")),
                    "relative": _or_null(_of("number", "The largest relative one.")),
                    "units": _or_null(_of("number", "The same in epsilons of the precision.")),
                    "passed": _flag("Whether none fails."),
                },
            )
        ),
        "minimal": _flag("Whether no single node can be left out."),
        "evaluations": _count("Runs, or scans, that the search took."),
        "assumptions": _of("assumptions"),
        "remarks": _list("What else is to be known.", _NAME),
    },
    {"list": _text("What `--lists` prints.")},
)

_DISCREPANCY = _object(
    "One finding of `fuzz`.",
    {
        "signature": _text("What it is recognised by."),
        "class": _text("defect, difference or illegal."),
        "oracle": _text("death, exception, nan, dtype, shape, compiled, saved, repeat or value."),
        "culprit": _text("The backend that is off."),
        "other": _or_null(_text("The backend that it differs from.")),
        "layer": _text("The layer or operator."),
        "parameters": _map("The parameters that are needed.", {}),
        "phase": _text("inference, training or gradient."),
        "dtype": _text("The number type."),
        "symptom": _text("The symptom."),
        "detail": _text("What was seen."),
        "first_test": _count("The number of the test."),
        "similar_tests": _count("Tests that show the same."),
        "script": _text("The script that shows it by itself."),
        "output": _text("What the script prints."),
        "versions": _map("Versions of frameworks.", _NAME),
        "known": _or_null(_text("The known issue that covers it.")),
        "returned": _or_null(_text("The note of a known issue that ought to be over.")),
    },
    {"rule": _text("The code of the rule.")},
)

_CAMPAIGN = _object(
    "What `fuzz` found.",
    {
        "schema_version": {"const": SCHEMA_VERSION},
        "command": {"const": "fuzz"},
        "tests": _count("Tests that were run."),
        "discrepancies": _count("Tests that showed a discrepancy."),
        "findings": _list("Findings, each once.", _of("discrepancy")),
        "known": _list("Findings that a known issue hides.", _of("discrepancy")),
        "not_reproduced": _list("Findings whose script does not show them.", {}),
        "deaths": _count("Processes that died."),
        "runs": _map("Runs by backend.", {"type": "integer"}),
        "cpu_seconds": _map("CPU seconds by backend.", _seconds("")),
        "unavailable": _map("Tests that a backend says it does not support.", {}),
        "missing": _map("Backends that are not there, and why.", _NAME),
        "versions": _map("Versions of frameworks.", _NAME),
        "coverage": {"description": "What of the catalogue was tried.", "type": ["object", "null"]},
        "errors": _list("Mistakes of tensorproof itself.", _NAME),
        "interrupted": _flag("Whether it was interrupted."),
        "seconds": _seconds("Seconds in all."),
    },
)

_SEARCH = _object(
    "A search around a trained network.",
    {
        "network": _text("The network."),
        "level": _text("input, weight or both."),
        "goal": _text("nan or label."),
        "method": _text("genetic, gradient or coverage."),
        "backends": _list("The backends.", _NAME),
        "seed": _count("The seed."),
        "found": {"description": "What was found.", "type": ["string", "null"]},
        "evaluations": _count("Evaluations."),
        "fitness": _text("The best fitness, as text."),
        "point": _or_null(_text("The file of the point.")),
    },
)

_REPORTS = _object(
    "The results of one check of several models.",
    {"schema_version": {"const": SCHEMA_VERSION}, "reports": _list("One for each model.", _of("report"))},
)


def schema() -> Schema:
    """The schema of everything that a command writes as JSON, with a definition for each part."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"tensorproof reports, version {SCHEMA_VERSION}",
        "description": "What `tensorproof COMMAND --format json` writes. Keys may be added within one version, never renamed.",
        "anyOf": [_of(name) for name in ("report", "reports", "plan", "campaign", "searches")],
        "$defs": {
            "report": _REPORT,
            "reports": _REPORTS,
            "finding": _FINDING,
            "model_map": _MODEL_MAP,
            "location": _LOCATION,
            "fix": _FIX,
            "assumptions": _ASSUMPTIONS,
            "input": _INPUT,
            "suspect": _SUSPECT,
            "comparison": _COMPARISON,
            "plan": _PLAN,
            "campaign": _CAMPAIGN,
            "discrepancy": _DISCREPANCY,
            "searches": _list("What `fuzz --level` found, one for each network.", _of("search")),
            "search": _SEARCH,
            "range": _RANGE,
            "number": _NUMBER,
        },
    }
