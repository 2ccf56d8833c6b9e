"""Witnesses for models of TensorFlow, Keras and JAX: the arrays, and a program that loads the model and fails while it fails.

The archive is that of all witnesses (`tensorproof.confirm.witness.npz_bytes`): members `array_0`, `array_1` and so on, and their
names as JSON in the member `names`. It holds the point and what the model keeps beside it (`FrameworkModel.kept`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy.typing as npt

from tensorproof.confirm.witness import npz_bytes, slug
from tensorproof.files import write_bytes, write_text
from tensorproof.findings import Finding, Witness
from tensorproof.frontends.framework_model import FrameworkModel
from tensorproof.frontends.tensorflow_reassociation import as_in_the_program

#: What a model keeps is stored with a witness if it takes no more than this many bytes.
LARGEST_STATE = 256 << 20


def save(
    folder: Path,
    finding: Finding,
    point: Mapping[str, npt.NDArray[Any]],
    framework_model: FrameworkModel,
    notes: list[str],
    *,
    results: Sequence[str] = (),
) -> Witness:
    """Write the files of a witness. `results` are the values that are not finite; by default those of the finding's node."""
    model = framework_model.model
    name = slug(finding, Path(framework_model.path).name if framework_model.path is not None else model.name)
    arrays, script = folder / f"{name}.npz", folder / f"test_{name}.py"
    kept = {key: array for key, array in framework_model.kept().items() if key not in point}
    if sum(array.nbytes for array in kept.values()) > LARGEST_STATE:
        notes.append(f"{finding.node}: the values of variables are too large to be kept with the witness")
        kept = {}
    if not results:
        node = next((node for node in model.graph.walk() if node.name == finding.node), None)
        results = () if node is None else tuple(as_in_the_program(model.name_of(n)) for n in node.outputs if n >= 0)
    text = framework_model.script(finding, results, arrays)
    write_bytes(arrays, npz_bytes({**kept, **point}))
    write_text(script, text)
    return Witness(str(arrays), str(script))
