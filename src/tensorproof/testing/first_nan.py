"""`FirstNaN`: PyTorch code observed while it runs, and the first operator that makes values NaN or infinite named with its line."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tensorproof.findings import Finding, Report
    from tensorproof.observe.eager import EagerObserver


class FirstNaN:
    """A context in which every operator of PyTorch is observed, forward and backward.

        with FirstNaN("my code") as first_nan:
            train()
        first_nan.check()

    An operator fails when its operands are finite and its result is not (`tensorproof.observe.eager` has the exact meaning). Where
    a loss was differentiated, and neither it nor a gradient is worse for it, that is a note, as everywhere: it is in `report`, but
    `check` lets it pass. So it does with rules whose codes begin with one of `ignore`.
    """

    def __init__(self, subject: str, ignore: Iterable[str] = ()) -> None:
        self.subject = subject
        self._ignore = tuple(ignore)
        self._observer: EagerObserver | None = None

    def __enter__(self) -> FirstNaN:
        from tensorproof.errors import ConfigurationError
        from tensorproof.observe.eager import EagerObserver

        try:
            self._observer = EagerObserver()
        except ModuleNotFoundError as error:
            if error.name != "torch":
                raise
            raise ConfigurationError(
                "what is observed is PyTorch, which is not installed: pip install 'tensorproof[torch]'"
            ) from None
        self._observer.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._observer is not None:
            self._observer.__exit__(kind, error, trace)

    @contextmanager
    def pause(self) -> Generator[None]:
        """What runs inside may be infinite or NaN on purpose: it is not observed."""
        observer = self._observer
        if observer is None or observer.is_paused:
            yield
            return
        observer.is_paused = True
        try:
            yield
        finally:
            observer.is_paused = False

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What failed so far, in the order in which it did: forward, then backward; without what is ignored."""
        return self.report().findings

    def report(self) -> Report:
        """What failed so far, in the form of every other report; what it counts as nodes are calls of operators."""
        from tensorproof.findings import Coverage, Report
        from tensorproof.observe.matching import findings_of
        from tensorproof.report.selection import apply_selection, parse_selection

        observer = self._observer
        forward = [] if observer is None else observer.forward
        backward = [] if observer is None else observer.backward
        loss = None if observer is None else observer.is_loss_finite
        found = findings_of(
            forward,
            backward,
            # Nobody says what the outputs of the observed code are: a failure counts until a finite loss speaks for it.
            is_output_finite=True,
            is_loss_finite=loss,
            has_bad_gradients=bool(backward),
            was_differentiated=loss is not None,
        )
        calls = 0 if observer is None else observer.operators
        report = Report(
            model=self.subject,
            target="torch",
            precision=None,
            assumptions={"weights": "as trained", "notes": [f"{calls} calls of operators observed"]},
            coverage=Coverage(calls, calls, calls),
            findings=tuple(found),
            proven_safe=(),
            proven_safe_if={},
        )
        return apply_selection(report, parse_selection((), self._ignore))

    def check(self) -> None:
        """Raise AssertionError if an operator failed; its first line names the operator and the line of the program."""
        __tracebackhide__ = True
        text = self.told()
        if text is not None:
            raise AssertionError(text)

    def told(self) -> str | None:
        """The first failure in a line, and the report, with lines of source below the current folder; None if nothing failed."""
        from tensorproof.report import terminal
        from tensorproof.report.plain_text import name, one_line
        from tensorproof.sources.discovery import shown_path

        report = self.report()
        first = next((finding for finding in report.findings if not finding.is_note), None)
        if first is None:
            return None
        where = "at an unknown line"
        if first.location is not None and first.location.file is not None:
            where = f"at {name(shown_path(first.location.file))}:{first.location.line}"
        headline = f"{first.rule.code} {first.rule.name} {where}: {one_line(first.message, 400)}"
        return f"{headline}\n\n{terminal.render((report,), source_root=Path.cwd())}"
