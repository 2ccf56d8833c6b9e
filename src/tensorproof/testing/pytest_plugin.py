"""The plugin of pytest: the marker `tensorproof`, the fixture `first_nan` and the option `--first-nan`.

All three observe the body of a test: an operator of PyTorch that makes values NaN or infinite fails it, with operator and line; in
a test that fails anyway, the line is told in a section of its report. Setup and teardown are not observed.
"""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterable
from typing import Any, cast

import pytest

from tensorproof.testing.first_nan import FirstNaN

MARKER = (
    "tensorproof(ignore=()): the test fails if an operator of PyTorch makes values NaN or infinite in it; "
    "`ignore` are codes of rules that are allowed"
)
_OBSERVED = pytest.StashKey[FirstNaN]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--first-nan`."""
    parser.getgroup("tensorproof").addoption(
        "--first-nan",
        action="store_true",
        help="observe the tests of every module that has imported PyTorch: the first operator that makes values NaN or "
        "infinite fails its test",
    )


def pytest_configure(config: pytest.Config) -> None:
    """The marker, for `--strict-markers` and `--markers`."""
    config.addinivalue_line("markers", MARKER)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A mistake in a marker ends the run before it begins, in one line."""
    for item in items:
        for marker in item.iter_markers("tensorproof"):
            if marker.args or marker.kwargs.keys() - {"ignore"}:
                raise pytest.UsageError(f"{item.nodeid}: the marker is tensorproof(ignore=[CODES])")
            if marker.kwargs:
                _check_codes(item)


@pytest.fixture
def first_nan(request: pytest.FixtureRequest) -> FirstNaN:
    """Observes the PyTorch code of the test: the first operator that makes values NaN or infinite fails it, with its line."""
    return _observing(cast("pytest.Item", request.node))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Run the test under observation, if it asks for it."""
    if not _is_observed(item):
        return (yield)
    observing = _observing(item)
    try:
        with observing:
            result = yield
    except (Exception, pytest.fail.Exception):
        told = observing.told()
        if told is not None:
            item.add_report_section("call", "tensorproof: the first value that is not finite", told)
        raise
    told = observing.told()
    if told is not None:
        pytest.fail(told, pytrace=False)
    return result


def _is_observed(item: pytest.Item) -> bool:
    if item.get_closest_marker("tensorproof") is not None or "first_nan" in getattr(item, "fixturenames", ()):
        return True
    return bool(item.config.getoption("--first-nan")) and "torch" in sys.modules


def _observing(item: pytest.Item) -> FirstNaN:
    """The observation of this test, made when it is first asked for."""
    if _OBSERVED not in item.stash:
        item.stash[_OBSERVED] = FirstNaN(item.nodeid, _ignored(item))
    return item.stash[_OBSERVED]


def _ignored(item: pytest.Item) -> list[str]:
    """The codes that the markers of a test, of its class and of its module allow."""
    codes: list[str] = []
    for marker in item.iter_markers("tensorproof"):
        given: Any = marker.kwargs.get("ignore", ())
        codes += [given] if isinstance(given, str) else cast("Iterable[str]", given)
    return codes


def _check_codes(item: pytest.Item) -> None:
    from tensorproof.errors import ConfigurationError
    from tensorproof.report.selection import parse_selection

    try:
        parse_selection((), _ignored(item))
    except ConfigurationError as error:
        raise pytest.UsageError(f"{item.nodeid}: {error}") from None
