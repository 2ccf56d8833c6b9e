"""What commands share at their end: the policy of exit codes, where a report is written, and errors as one line."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

from tensorproof.configuration import FAIL_ON, Configuration
from tensorproof.errors import ConfigurationError, TensorproofError
from tensorproof.findings import Report
from tensorproof.report import find_format


def policy(fail_on: str | None, configuration: Configuration) -> str:
    """What the exit code follows: the option, the configuration, or what is confirmed."""
    chosen = fail_on or configuration.fail_on or "confirmed"
    if chosen not in FAIL_ON:
        raise ConfigurationError(f"--fail-on {chosen!r}: write {', '.join(FAIL_ON)}")
    return chosen


def put_out(reports: list[Report], format: str, output: Path | None, source_root: Path | None) -> None:
    """Write the report where it belongs; the terminal's own gets its width and colour where somebody looks."""
    if format == "terminal" and output is None and sys.stdout.isatty():
        import shutil

        from tensorproof.report import terminal

        width, colour = min(shutil.get_terminal_size().columns, 120), "NO_COLOR" not in os.environ
        text = terminal.render(reports, source_root=source_root, width=width, colour=colour)
    else:
        text = find_format(format)(reports, source_root=source_root)
    write_out(text if text.endswith("\n") else text + "\n", output)


def write_out(text: str, output: Path | None) -> None:
    """Write a text to a file, or else to standard output."""
    if output is not None:
        from tensorproof.files import write_text

        write_text(output, text)
    else:
        sys.stdout.write(text)
        sys.stdout.flush()


def guarded(command: Callable[[], int], *, debug: bool) -> int:
    """The exit code of a command; what goes wrong in it is one line on standard error."""
    try:
        return command()
    except TensorproofError as error:
        return fail(str(error))
    except KeyboardInterrupt:
        return fail("interrupted")
    except BrokenPipeError:
        return 2
    except Exception as error:
        # The errors of the option parser know how to say what is wrong; its classes are not part of typer's interface.
        describe = getattr(error, "format_message", None)
        if describe is not None:
            return fail(str(describe()))
        if debug:
            raise
        return fail(f"internal error: {type(error).__name__}: {error}; run with --debug for the traceback")


def fail(message: str) -> int:
    """Say what is wrong, and the exit code for it."""
    complain(message)
    return 2


def complain(message: str) -> None:
    """One line on standard error; what is not visible in it becomes an escape."""
    line = " ".join(message.split())
    print(f"tensorproof: {''.join(c if c.isprintable() else ascii(c)[1:-1] for c in line)}", file=sys.stderr)
