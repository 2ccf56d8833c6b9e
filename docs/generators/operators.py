"""The table of operators."""

from __future__ import annotations

from docs.generators.markdown import page, table
from tensorproof.operators.table import Operator, all_operators


def pages() -> dict[str, str]:
    entries = list(all_operators())
    rows = ((entry.label, admitted_formats(entry), precision(entry), ", ".join(_links(entry)), entry.summary) for entry in entries)
    return {
        "operators.md": page(
            "# Operators",
            "",
            f"{len(entries)} operators have a block. Any other operator gives an unknown value and a visible *not analysed*.",
            "Every operator can also report [NUM109](rules/NUM109.md) where legal infinities meet.",
            "",
            *table(("operator", "floating formats", "precision", "rules", "meaning"), rows),
        )
    }


def _links(entry: Operator) -> list[str]:
    return [f"[{rule.code}](rules/{rule.code}.md)" for rule in entry.rules()]


def admitted_formats(entry: Operator) -> str:
    """The floating formats that the operator's schema admits; contrib operators have no schema in the onnx package."""
    import onnx

    try:
        schema = onnx.defs.get_schema(entry.name, entry.domain)
    except onnx.defs.SchemaError:
        return "as the runtime admits"
    wanted = {"double": "float64", "float": "float32", "float16": "float16", "bfloat16": "bfloat16"}
    types = {t for c in schema.type_constraints for t in c.allowed_type_strs}
    found = [name for onnx_name, name in wanted.items() if any(f"tensor({onnx_name})" in t for t in types)]
    if any("float8" in t for t in types):
        found.append("float8")
    return ", ".join(found) or "none"


def precision(entry: Operator) -> str:
    """What a reader may expect of the range: exact, rounded, coarse with the reason, or nothing."""
    if entry.top is not None:
        return f"nothing is known: {entry.top}"
    if entry.coarse is not None:
        return f"coarse: {entry.coarse}"
    if entry.is_control:
        return "runs its sub-graphs"
    if entry.error.ulps == 0 and entry.error.absolute == 0:
        return "exact"
    if entry.error.ulps == 0.5:
        return "correctly rounded"
    return f"within {entry.error.ulps:g} ulp"
