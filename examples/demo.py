"""The demonstration: builds the example models, checks them, replays a failing input, repairs the models and checks them again."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from models import EXAMPLES, build  # noqa: E402

#: The exit code of each command: what is defective is found, and what was repaired is clean.
EXPECTED = {
    "check naive_cross_entropy": 1,
    "check vae_loss": 1,
    "check transformer_float16": 1,
    "check stable_softmax": 0,
    "replay": 0,
    "fix naive_cross_entropy": 0,
    "check naive_cross_entropy_fixed": 0,
    "fix vae_loss": 0,
    "check vae_loss_fixed": 0,
    "fix transformer_float16": 0,
    "check transformer_float16_fixed": 0,
}


def main() -> int:
    folder = Path("build/demo")
    witnesses = folder / "witnesses"
    for old in witnesses.glob("*"):
        old.unlink()
    codes: dict[str, int] = {}
    paths = build(folder)
    for name, path in paths.items():
        codes[f"check {name}"] = tensorproof("check", path, *EXAMPLES[name][1], "--witnesses", witnesses)
    script = next(iter(sorted(witnesses.glob("*.py"))), None)
    if script is not None:
        codes["replay"] = called([str(script)], ["python", str(script)])
    for name, path in paths.items():
        if codes[f"check {name}"] == 1:
            fixed = folder / f"{name}_fixed.onnx"
            ranges = EXAMPLES[name][1]
            # Scores beyond float16 become its largest number: finite values stay, derivatives next to that number do not.
            unsafe = ["--unsafe"] if name == "transformer_float16" else []
            # The first repair is shown with its proof, the others as changes of their graphs.
            shown = [] if name == "naive_cross_entropy" else ["--diff"]
            codes[f"fix {name}"] = tensorproof("fix", path, *ranges, *unsafe, *shown, "--apply", fixed, "--witnesses", witnesses)
            codes[f"check {fixed.stem}"] = tensorproof("check", fixed, *ranges, "--witnesses", witnesses)
    if codes != EXPECTED:
        print(f"\nthe demonstration went wrong: exit codes {codes}, expected {EXPECTED}")
        return 1
    print("\nThree defective models were caught with failing inputs, repaired and proven; the sound one stayed silent.")
    return 0


def tensorproof(*arguments: object) -> int:
    words = ["tensorproof", *map(str, arguments)]
    return called(["-m", *words], words)


def called(arguments: Sequence[str], shown: Sequence[str]) -> int:
    print(f"\n$ {' '.join(shown)}", flush=True)
    return subprocess.call([sys.executable, *arguments])


if __name__ == "__main__":
    sys.exit(main())
