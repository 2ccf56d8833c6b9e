"""The demonstration: builds the example models, checks them, and replays the first failing input that was found."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from models import EXAMPLES, build  # noqa: E402


def main() -> int:
    folder = Path("build/demo")
    witnesses = folder / "witnesses"
    for old in witnesses.glob("*"):
        old.unlink()
    codes: dict[str, int] = {}
    for name, path in build(folder).items():
        command = ["tensorproof", "check", str(path), *EXAMPLES[name][1], "--witnesses", str(witnesses)]
        print(f"\n$ {' '.join(command)}", flush=True)
        codes[name] = subprocess.call([sys.executable, "-m", *command])
    script = next(iter(sorted(witnesses.glob("*.py"))), None)
    if script is not None:
        print(f"\n$ python {script}", flush=True)
        codes["replay"] = subprocess.call([sys.executable, str(script)])
    expected = {"naive_cross_entropy": 1, "vae_loss": 1, "transformer_float16": 1, "stable_softmax": 0, "replay": 0}
    if codes != expected:
        print(f"\nthe demonstration went wrong: exit codes {codes}, expected {expected}")
        return 1
    print("\nThree defective models were caught with failing inputs, the sound one stayed silent.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
