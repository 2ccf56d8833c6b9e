"""The language server as an editor meets it: a real client drives the real process over its standard input and output."""

from __future__ import annotations

import ast
import asyncio
import json
import re
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lsprotocol import types
from pygls.lsp.client import LanguageClient

from tensorproof import __version__
from tensorproof.language_server.carrying import carried_over
from tensorproof.language_server.ignoring import ignore_edit
from tensorproof.language_server.positions import SourceText
from tensorproof.rules.shapes.layer_features import LAYER_FEATURES
from tensorproof.rules.shapes.matmul_mismatch import MATMUL_MISMATCH
from tensorproof.shapes.problems import Edit, Hint, Place, Problem, Related, SourceAnalysis, Statistics
from tensorproof.sources.ignores import Ignores
from tests.commands import tensorproof

pytestmark = pytest.mark.area("language server")

ROOT = Path(__file__).resolve().parents[1]
SERVER = (sys.executable, "-W", "error", "-m", "tensorproof", "lsp")
#: No answer takes this long on a machine that is merely busy.
PATIENCE = 30.0

DEFECT = """\
import torch
from torch import nn

x = torch.zeros(8, 20)
layer = nn.Linear(10, 5)
y = layer(x)
"""
CLEAN = DEFECT.replace("10, 5", "20, 5")
#: `y` ends after 10 characters, 11 units of UTF-16 and 14 bytes of UTF-8.
EMOJI = DEFECT.replace("y = layer(x)", 'é = "😀"; y = layer(x)')

#: The server with an analysis that prints, and that fails on demand.
TROUBLED = """
import sys
import tensorproof.language_server.analysing as analysing
from tensorproof.language_server.server import serve
real = analysing.analyse_source
def troubled(text, path):
    print("a stray line")
    if "explode" in text:
        raise ZeroDivisionError("exploded")
    return real(text, path)
analysing.analyse_source = troubled
sys.exit(serve())
"""


class Editor(LanguageClient):
    """A client that keeps what the server tells it."""

    def __init__(self) -> None:
        super().__init__("test editor", "1")
        self.published: dict[str, list[types.PublishDiagnosticsParams]] = {}
        self.logged: list[str] = []
        self.opened: set[str] = set()
        self.refreshed = 0
        self.errors: list[Exception] = []
        self._news = asyncio.Event()

        @self.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
        def publish(params: types.PublishDiagnosticsParams) -> None:
            self.published.setdefault(params.uri, []).append(params)
            self._news.set()

        @self.feature(types.WINDOW_LOG_MESSAGE)
        def log(params: types.LogMessageParams) -> None:
            self.logged.append(params.message)
            self._news.set()

        @self.feature(types.WORKSPACE_INLAY_HINT_REFRESH)
        def refresh(_: None) -> None:
            self.refreshed += 1
            self._news.set()

    def report_server_error(self, error: Exception, source: type[Exception]) -> None:
        """Anything on the server's standard output that is not the protocol ends up here."""
        self.errors.append(error)

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not condition():
                self._news.clear()
                await self._news.wait()

    async def diagnostics(self, uri: str, version: int) -> list[types.Diagnostic]:
        """What the server publishes for a version of a document."""

        def arrived() -> bool:
            return uri in self.published and self.published[uri][-1].version == version

        await self.until(arrived)
        return list(self.published[uri][-1].diagnostics)

    def open(self, uri: str, text: str) -> None:
        item = types.TextDocumentItem(uri, types.LanguageKind.Python, 1, text)
        self.text_document_did_open(types.DidOpenTextDocumentParams(item))
        self.opened.add(uri)

    def close(self, uri: str) -> None:
        self.text_document_did_close(types.DidCloseTextDocumentParams(types.TextDocumentIdentifier(uri)))
        self.opened.remove(uri)

    def change(self, uri: str, version: int, text: str) -> None:
        identifier = types.VersionedTextDocumentIdentifier(version, uri)
        whole = types.TextDocumentContentChangeWholeDocument(text)
        self.text_document_did_change(types.DidChangeTextDocumentParams(identifier, [whole]))

    async def hints(self, uri: str, last_line: int = 10**6) -> list[tuple[int, int, str]]:
        visible = types.Range(types.Position(0, 0), types.Position(last_line, 0))
        answer = await self.text_document_inlay_hint_async(types.InlayHintParams(types.TextDocumentIdentifier(uri), visible))
        return [(hint.position.line, hint.position.character, str(hint.label)) for hint in answer or ()]

    async def hover_text(self, uri: str, line: int, character: int) -> str | None:
        position = types.Position(line, character)
        answer = await self.text_document_hover_async(types.HoverParams(types.TextDocumentIdentifier(uri), position))
        if answer is None:
            return None
        assert isinstance(answer.contents, types.MarkupContent)
        return answer.contents.value

    async def actions(self, uri: str, place: types.Range, only: list[str] | None = None) -> list[types.CodeAction]:
        context = types.CodeActionContext([], only=only)
        answer = await self.text_document_code_action_async(
            types.CodeActionParams(types.TextDocumentIdentifier(uri), place, context)
        )
        return [action for action in answer or () if isinstance(action, types.CodeAction)]


def capabilities(encodings: list[str] | None = None, *, related: bool = True) -> types.ClientCapabilities:
    return types.ClientCapabilities(
        general=types.GeneralClientCapabilities(position_encodings=encodings),
        text_document=types.TextDocumentClientCapabilities(
            publish_diagnostics=types.PublishDiagnosticsClientCapabilities(related_information=related)
        ),
        workspace=types.WorkspaceClientCapabilities(inlay_hint=types.InlayHintWorkspaceClientCapabilities(refresh_support=True)),
    )


@asynccontextmanager
async def editor(
    *command: str, encodings: list[str] | None = None, related: bool = True, log: str | None = None
) -> AsyncIterator[Editor]:
    """A started session. In the end the server has to leave with 0, and to have said nothing but `log` beside the protocol."""
    client = Editor()
    program, *arguments = command or SERVER
    await client.start_io(program, *arguments)
    process = client._server
    assert process is not None and process.stderr is not None
    try:
        async with asyncio.timeout(PATIENCE):
            await client.initialize_async(types.InitializeParams(capabilities(encodings, related=related)))
        client.initialized(types.InitializedParams())
        yield client
        async with asyncio.timeout(PATIENCE):
            await client.shutdown_async(None)
            client.exit(None)
            said = (await process.stderr.read()).decode()
            assert await process.wait() == 0
        assert said == (log or "")
        assert client.errors == []
    finally:
        if process.returncode is None:
            process.kill()
        await client.stop()


class Served:
    """One server for many tests: each has documents of its own, which are closed after it."""

    def __init__(self, runner: asyncio.Runner, client: Editor) -> None:
        self.runner = runner
        self.client = client

    def run(self, body: Callable[[Editor], Coroutine[Any, Any, None]]) -> None:
        self.runner.run(body(self.client))
        for uri in list(self.client.opened):
            self.client.close(uri)


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with asyncio.Runner() as runner:
        session = editor()
        yield Served(runner, runner.run(session.__aenter__()))
        runner.run(session.__aexit__(None, None, None))


def alone(body: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a test that starts a server of its own."""
    asyncio.run(body())


def applied(text: str, action: types.CodeAction, uri: str) -> str:
    """The text after an action, whose positions are in UTF-16."""
    assert action.edit is not None and action.edit.changes is not None and list(action.edit.changes) == [uri]
    encoded = [line.encode("utf-16-le") for line in text.splitlines(keepends=True)]
    (edit,) = action.edit.changes[uri]
    assert edit.range.start.line == edit.range.end.line
    line = encoded[edit.range.start.line]
    changed = line[: edit.range.start.character * 2] + edit.new_text.encode("utf-16-le") + line[edit.range.end.character * 2 :]
    encoded[edit.range.start.line] = changed
    return b"".join(encoded).decode("utf-16-le")


# -- sessions ---------------------------------------------------------------------------------------------------------


def test_a_session_from_the_defect_to_the_repair(served: Served, tmp_path: Path) -> None:
    uri = (tmp_path / "model.py").as_uri()

    async def body(client: Editor) -> None:
        client.open(uri, DEFECT)
        (found,) = await client.diagnostics(uri, 1)
        assert (found.code, found.source, found.severity) == ("SHP105", "tensorproof", types.DiagnosticSeverity.Error)
        assert found.range.start.line == 5
        assert "20" in found.message and "10" in found.message
        assert found.code_description is None
        assert found.related_information
        assert {one.location.uri for one in found.related_information} == {uri}
        assert 4 in {one.location.range.start.line for one in found.related_information}

        actions = await client.actions(uri, found.range)
        repair = actions[0]
        assert repair.kind == types.CodeActionKind.QuickFix and repair.diagnostics is not None
        assert repair.diagnostics[0].code == "SHP105"
        mended = applied(DEFECT, repair, uri)
        assert mended == CLEAN
        client.change(uri, 2, mended)
        assert await client.diagnostics(uri, 2) == []
        assert await client.actions(uri, found.range) == []

    served.run(body)


def test_the_ignore_action_silences_the_line(served: Served, tmp_path: Path) -> None:
    uri = (tmp_path / "model.py").as_uri()

    async def body(client: Editor) -> None:
        client.open(uri, DEFECT)
        (found,) = await client.diagnostics(uri, 1)
        ignore = (await client.actions(uri, found.range))[-1]
        silenced = applied(DEFECT, ignore, uri)
        assert silenced == DEFECT.replace("layer(x)", "layer(x)  # tensorproof: ignore[SHP105]")
        client.change(uri, 2, silenced)
        assert await client.diagnostics(uri, 2) == []
        # Of another kind of action there is none.
        assert await client.actions(uri, found.range, only=["refactor"]) == []

    served.run(body)


def test_hints_and_hover(served: Served, tmp_path: Path) -> None:
    uri = (tmp_path / "model.py").as_uri()

    async def body(client: Editor) -> None:
        client.open(uri, CLEAN + "z = y\n")
        hints = await client.hints(uri)
        assert (3, 1, ": f32[8, 20]") in hints
        assert (5, 1, ": f32[8, 5]") in hints
        assert [hint for hint in await client.hints(uri, last_line=4) if hint[0] > 4] == []

        at_assignment = await client.hover_text(uri, 5, 0)
        assert at_assignment is not None and at_assignment.startswith("`y: f32[8, 5]`")
        assert "- line " in at_assignment
        at_use = await client.hover_text(uri, 5, 10)
        assert at_use is not None and at_use.startswith("`x: f32[8, 20]`, assigned on line 4")
        assert await client.hover_text(uri, 0, 2) is None
        assert await client.hover_text(uri, 10**6, 0) is None

    served.run(body)


def test_hover_keeps_to_the_function(served: Served, tmp_path: Path) -> None:
    uri = (tmp_path / "model.py").as_uri()
    text = """\
import torch

y = torch.zeros(2)

def first():
    y = torch.zeros(3)
    return y

def second():
    return [y]

print(first(), second(), y)
"""

    async def body(client: Editor) -> None:
        client.open(uri, text)
        inner = await client.hover_text(uri, 6, 11)
        assert inner is not None and inner.startswith("`y: f32[3]`, assigned on line 6")
        outer = await client.hover_text(uri, 11, 25)
        assert outer is not None and outer.startswith("`y: f32[2]`, assigned on line 3")
        # Which of the two a function sees that assigns neither is not looked for.
        assert await client.hover_text(uri, 9, 12) is None

    served.run(body)


def test_places_in_an_imported_module(served: Served, tmp_path: Path) -> None:
    """Their columns are counted in the text of that module, and the edit goes there."""
    parts = tmp_path / "parts.py"
    parts.write_text('from torch import nn\né = "😀"; layer = nn.Linear(10, 5)\n', "utf-8")
    uri = (tmp_path / "model.py").as_uri()

    async def body(client: Editor) -> None:
        client.open(uri, "import torch\nfrom parts import layer\ny = layer(torch.zeros(8, 20))\n")
        (found,) = await client.diagnostics(uri, 1)
        assert found.range.start.line == 2 and found.related_information is not None
        (made,) = [one.location for one in found.related_information if one.location.uri == parts.as_uri()]
        assert made.range == types.Range(types.Position(1, 18), types.Position(1, 34))
        shown = await client.hover_text(uri, 2, 0)
        assert shown is not None and shown.startswith("`y: f32[8, 5]`")
        repair = (await client.actions(uri, found.range))[0]
        assert repair.edit is not None and repair.edit.changes is not None
        number = types.Range(types.Position(1, 28), types.Position(1, 30))
        assert {target: list(edits) for target, edits in repair.edit.changes.items()} == {
            parts.as_uri(): [types.TextEdit(number, "20")]
        }

    served.run(body)


def test_a_text_that_does_not_parse_keeps_the_last_result(served: Served, tmp_path: Path) -> None:
    uri = (tmp_path / "model.py").as_uri()

    async def body(client: Editor) -> None:
        client.open(uri, DEFECT)
        (before,) = await client.diagnostics(uri, 1)
        client.change(uri, 2, DEFECT + "z = torch.zeros(")
        assert await client.diagnostics(uri, 2) == [before]
        assert (3, 1, ": f32[8, 20]") in await client.hints(uri)
        # Lines above move what is below.
        client.change(uri, 3, "# one\n(\n" + DEFECT + "z = torch.zeros(")
        (after,) = await client.diagnostics(uri, 3)
        assert after.message == before.message
        assert (after.range.start.line, after.range.end.line) == (before.range.start.line + 2, before.range.end.line + 2)
        assert (5, 1, ": f32[8, 20]") in await client.hints(uri)
        # What is being typed is no longer judged.
        client.change(uri, 4, DEFECT.replace("layer(x)", "layer(x"))
        assert await client.diagnostics(uri, 4) == []
        client.change(uri, 5, DEFECT)
        assert await client.diagnostics(uri, 5) == [before]

    served.run(body)


def test_a_text_that_never_parsed_has_nothing(served: Served, tmp_path: Path) -> None:
    uri = (tmp_path / "model.py").as_uri()

    async def body(client: Editor) -> None:
        client.open(uri, "x = (")
        assert await client.diagnostics(uri, 1) == []
        assert await client.hints(uri) == []
        assert await client.hover_text(uri, 0, 0) is None
        for version, hostile in enumerate(("x = 'a\0b'", "x = " + "-" * 100_000 + "1", "x = " + "(" * 5_000, "x = '\ud800'"), 2):
            client.change(uri, version, hostile)
            assert await client.diagnostics(uri, version) == []

    served.run(body)


async def check_columns(client: Editor, uri: str, column: int) -> types.Range:
    """The name `y` of `EMOJI` has to end at a column; gives the range of the problem after it."""
    client.open(uri, EMOJI)
    (found,) = await client.diagnostics(uri, 1)
    assert found.range.start.line == found.range.end.line == 5
    assert [hint for hint in await client.hints(uri) if hint[0] == 5] == [(5, column, ": f32[8, 5]")]
    assert found.range.end.character == column + len(" = layer(x)")
    shown = await client.hover_text(uri, 5, column)
    assert shown is not None and shown.startswith("`y: f32[8, 5]`")
    return found.range


def test_columns_after_an_emoji(served: Served, tmp_path: Path) -> None:
    uri = (tmp_path / "модель.py").as_uri()

    async def body(client: Editor) -> None:
        actions = await client.actions(uri, await check_columns(client, uri, 11))
        assert len(actions) == 2
        for action in actions:
            ast.parse(applied(EMOJI, action, uri))

    served.run(body)


@pytest.mark.parametrize(("encoding", "column"), [("utf-8", 14), ("utf-32", 10)])
def test_columns_in_the_encoding_that_the_editor_prefers(tmp_path: Path, encoding: str, column: int) -> None:
    async def body() -> None:
        async with editor(encodings=[encoding, "utf-16"]) as client:
            await check_columns(client, (tmp_path / "model.py").as_uri(), column)

    alone(body)


def test_an_editor_without_related_places_reads_them_in_the_message(tmp_path: Path) -> None:
    uri = (tmp_path / "model.py").as_uri()

    async def body() -> None:
        async with editor(related=False) as client:
            client.open(uri, DEFECT)
            (found,) = await client.diagnostics(uri, 1)
            assert found.related_information is None
            assert re.search(r"\nline 5: ", found.message)

    alone(body)


def test_only_the_newest_of_many_changes_counts(served: Served, tmp_path: Path) -> None:
    uri = (tmp_path / "model.py").as_uri()
    last = 30

    async def body(client: Editor) -> None:
        client.open(uri, DEFECT)
        for version in range(2, last):
            client.change(uri, version, DEFECT + f"# {version}\n")
        client.change(uri, last, CLEAN)
        assert await client.diagnostics(uri, last) == []
        versions = [one.version or 0 for one in client.published[uri]]
        assert versions == sorted(versions) and len(versions) < last / 2

    served.run(body)


def test_closing_takes_the_diagnostics_away(served: Served, tmp_path: Path) -> None:
    uri = (tmp_path / "model.py").as_uri()

    async def body(client: Editor) -> None:
        client.open(uri, DEFECT)
        assert len(await client.diagnostics(uri, 1)) == 1
        client.close(uri)
        await client.until(lambda: not client.published[uri][-1].diagnostics)
        assert await client.hints(uri) == []
        client.open(uri, DEFECT)
        await client.until(lambda: len(client.published[uri][-1].diagnostics) == 1)

    served.run(body)


def test_the_configuration_of_the_project_selects(served: Served, tmp_path: Path) -> None:
    uri = (tmp_path / "model.py").as_uri()
    configuration = tmp_path / "pyproject.toml"
    configuration.write_text('[tool.tensorproof]\nignore = ["SHP105"]\n')

    async def body(client: Editor) -> None:
        client.logged.clear()
        client.open(uri, DEFECT)
        assert await client.diagnostics(uri, 1) == []
        configuration.write_text('[tool.tensorproof]\nselect = ["SHP1"]\n')
        client.change(uri, 2, DEFECT)
        assert len(await client.diagnostics(uri, 2)) == 1
        configuration.write_text('[tool.tensorproof]\nselect = ["XYZ"]\n')
        client.change(uri, 3, DEFECT)
        assert len(await client.diagnostics(uri, 3)) == 1
        assert len(client.logged) == 1 and "XYZ" in client.logged[0]

    served.run(body)


def test_saving_a_document_looks_at_the_others_again(served: Served, tmp_path: Path) -> None:
    uri, other = (tmp_path / "model.py").as_uri(), (tmp_path / "sizes.py").as_uri()

    async def body(client: Editor) -> None:
        client.open(uri, DEFECT)
        client.open(other, "size = 20\n")
        await client.diagnostics(uri, 1)
        await client.diagnostics(other, 1)
        client.text_document_did_save(types.DidSaveTextDocumentParams(types.TextDocumentIdentifier(other)))
        await client.until(lambda: client.refreshed == 1)
        assert [len(client.published[document]) for document in (uri, other)] == [2, 1]

    served.run(body)


def test_a_crash_of_the_analysis_is_a_line_in_the_log(tmp_path: Path) -> None:
    """The same analysis prints on standard output, which must not disturb the protocol."""
    uri = (tmp_path / "model.py").as_uri()

    async def body() -> None:
        async with editor(sys.executable, "-W", "error", "-c", TROUBLED, log="a stray line\n" * 4) as client:
            client.open(uri, DEFECT)
            (before,) = await client.diagnostics(uri, 1)
            for version in (2, 3):
                client.change(uri, version, f"{DEFECT}explode = {version}\n")
                assert await client.diagnostics(uri, version) == [before]
            (message,) = client.logged
            assert "ZeroDivisionError: exploded" in message
            client.change(uri, 4, CLEAN)
            assert await client.diagnostics(uri, 4) == []

    alone(body)


def test_a_long_file_is_answered_while_somebody_types(tmp_path: Path) -> None:
    uri = (tmp_path / "model.py").as_uri()
    block = """
def block_{0}(x):
    layer = nn.Linear(20, 5)
    return layer(x)

result_{0} = block_{0}(torch.zeros({0}, 20))
"""
    head = "import torch\nfrom torch import nn\n"
    text = head + "".join(block.format(number) for number in range(1, 834))
    lines = text.count("\n")
    assert lines >= 5000

    async def body() -> None:
        async with editor() as client:
            client.open(uri, text)
            assert await client.diagnostics(uri, 1) == []
            started = time.perf_counter()
            client.change(uri, 2, text + "layer = nn.Linear(10, 5)\ny = layer(result_1)\n")
            (found,) = await client.diagnostics(uri, 2)
            seconds = time.perf_counter() - started
            assert found.range.start.line == lines + 1
            assert len(await client.hints(uri)) >= 833
            print(f"{lines} lines: {seconds:.2f} s from the change to its diagnostics, of which 0.2 s are the wait for a pause")
            assert seconds < 5

    alone(body)


def test_a_server_whose_editor_is_gone_ends() -> None:
    result = subprocess.run(SERVER, input=b"", capture_output=True, timeout=PATIENCE)
    assert (result.returncode, result.stdout) == (1, b"")


def test_without_the_extra_the_command_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("tensorproof.language_server")]:
        monkeypatch.delitem(sys.modules, name)
    for name in ("pygls", "pygls.lsp.server", "pygls.uris", "lsprotocol"):
        monkeypatch.setitem(sys.modules, name, None)
    result = tensorproof("lsp")
    assert result.code == 2 and "pip install 'tensorproof[lsp]'" in result.err


# -- positions, one by one --------------------------------------------------------------------------------------------

UNITS = {"utf-8": 1, "utf-16": 2, "utf-32": 4}
#: Ends of lines, what only `str.splitlines` takes for one, and statements with columns that differ in every encoding.
PIECES = ["\n", "\r\n", "\r", "# \u2028\n", "\x0c\n", "s = 'é😀\x0b'; x = 1\n", "x = '\x85'; x = 2\r\n"]


@given(st.text(st.sampled_from("ax é😀\u2028\x0c\x0b\x85\t\n\r"), max_size=40), st.sampled_from(sorted(UNITS)))
def test_every_position_there_and_back(text: str, encoding: str) -> None:
    source = SourceText(text, encoding)
    codec = encoding if encoding == "utf-8" else f"{encoding}-le"
    for number, line in enumerate(re.split("\r\n|\r|\n", text), 1):
        for index in range(len(line) + 1):
            column = len(line[:index].encode())
            position = source.position(number, column)
            assert position == types.Position(number - 1, len(line[:index].encode(codec)) // UNITS[encoding])
            assert source.line_and_column(position) == (number, column)


@given(st.lists(st.sampled_from(PIECES), max_size=12))
def test_lines_are_those_of_ast(pieces: list[str]) -> None:
    text = "".join(pieces) + "x = 3"
    source = SourceText(text, "utf-8")
    names = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name) and node.id == "x"]
    assert names
    for name in names:
        found = source.range(Place.of("", name))
        assert source.lines[found.start.line].encode()[found.start.character : found.end.character] == b"x"


def test_positions_outside_the_text_are_moved_into_it() -> None:
    source = SourceText("ab\né😀", "utf-16")
    assert source.position(1, 99) == types.Position(0, 2)
    assert source.position(9, 0) == types.Position(1, 3)
    assert source.line_and_column(types.Position(0, 99)) == (1, 2)
    assert source.line_and_column(types.Position(9, 9)) == (2, 6)
    # The middle of the emoji is before it.
    assert source.line_and_column(types.Position(1, 2)) == (2, 2)


# -- results of an older text -----------------------------------------------------------------------------------------


def place(first: int, last: int | None = None, file: str = "m.py") -> Place:
    return Place(file, first, 0, last or first, 1)


def analysis_with(*places: Place) -> SourceAnalysis:
    """One problem and one hint at each place, related to line 1 and to another file."""
    related = (Related(place(1), "here"), Related(place(1, file="other.py"), "there"))
    problems = tuple(Problem(MATMUL_MISMATCH, one, "m", True, related, (Edit("e", one, ""),)) for one in places)
    return SourceAnalysis("m.py", problems, tuple(Hint(one, "x", "f32[]", related) for one in places), Statistics())


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        ("abcdef", [1, 3, 5]),
        ("abcdef(", [1, 3, 5]),
        ("XYabcdef", [3, 5, 7]),
        ("bcdef", [2, 4]),
        ("abXdef", [1, 5]),
        ("abXXdef", [1, 6]),
        ("abdef", [1, 4]),
        ("abccdef", [1, 3, 6]),
        ("", []),
    ],
)
def test_what_stands_on_unchanged_lines_is_carried_over(after: str, expected: list[int]) -> None:
    carried = carried_over(analysis_with(place(1), place(3), place(5)), "abcdef", after)
    assert [problem.place.line for problem in carried.problems] == expected
    assert [hint.place.line for hint in carried.hints] == expected
    assert [problem.edits[0].place.line for problem in carried.problems] == expected
    for problem in carried.problems:
        assert [one.message for one in problem.related] == (["there"] if after == "bcdef" else ["here", "there"])


def test_what_spans_a_change_is_dropped() -> None:
    assert carried_over(analysis_with(place(1, 5)), "abcdef", "abXdef").problems == ()


# -- ignoring a line --------------------------------------------------------------------------------------------------


def ignored(text: str, line: int) -> str | None:
    edit = ignore_edit(SourceText(text), Problem(LAYER_FEATURES, place(line), "m", True))
    if edit is None:
        return None
    lines = text.split("\n")
    row, column = edit.place.line - 1, edit.place.column
    content = lines[row].encode()
    lines[row] = content[:column].decode() + edit.text + content[column:].decode()
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("text", "line", "expected"),
    [
        ("f(x)", 1, "f(x)  # tensorproof: ignore[SHP105]"),
        ("'é😀'; f(x)", 1, "'é😀'; f(x)  # tensorproof: ignore[SHP105]"),
        ("f(x)  # é", 1, "f(x)  # é  # tensorproof: ignore[SHP105]"),
        ("f(x)  # tensorproof: ignore[SHP101]", 1, "f(x)  # tensorproof: ignore[SHP101, SHP105]"),
        ("f('# tensorproof: ignore[SHP101]')", 1, "f('# tensorproof: ignore[SHP101]')  # tensorproof: ignore[SHP105]"),
        ("f(\n  x)", 2, "f(\n  x)  # tensorproof: ignore[SHP105]"),
        ('f(x, """\n""", y)', 1, 'f(x, """\n""", y)  # tensorproof: ignore[SHP105]'),
        ('f(x,\n  """\n""", y)', 2, 'f(x,  # tensorproof: ignore[SHP105]\n  """\n""", y)'),
        ("y = \\\n  f(x)", 2, "y = \\\n  f(x)  # tensorproof: ignore[SHP105]"),
        ("y = f(x) + \\\n  1", 1, "y = f(x) + \\\n  1  # tensorproof: ignore[SHP105]"),
        ("f(x  # \\\n)", 1, "f(x  # \\  # tensorproof: ignore[SHP105]\n)"),
        ("f(", 1, None),
    ],
)
def test_where_an_ignore_comment_goes(text: str, line: int, expected: str | None) -> None:
    """Where one is offered, it is heeded."""
    assert ignored(text, line) == expected
    assert expected is None or Ignores.of(expected).covers("SHP105", line)


# -- the extension for Visual Studio Code -----------------------------------------------------------------------------

EXTENSION = ROOT / "editors" / "vscode"


def test_the_extension_is_packaged(tmp_path: Path) -> None:
    target = tmp_path / "tensorproof.vsix"
    for _ in range(2):
        before = target.read_bytes() if target.exists() else None
        subprocess.run([sys.executable, str(EXTENSION / "package.py"), str(target)], check=True, capture_output=True)
    assert target.read_bytes() == before
    with zipfile.ZipFile(target) as archive:
        names = set(archive.namelist())
        package = json.loads(archive.read("extension/package.json"))
        manifest = ElementTree.fromstring(archive.read("extension.vsixmanifest"))
        media_types = ElementTree.fromstring(archive.read("[Content_Types].xml"))
        main = (Path("extension") / package["main"]).as_posix()
        assert b"tensorproof" in archive.read(main)
    space = {"v": manifest.tag.partition("}")[0][1:]}
    identity = manifest.find("v:Metadata/v:Identity", space)
    assert identity is not None
    assert (identity.get("Id"), identity.get("Version"), identity.get("Publisher")) == ("tensorproof", __version__, "tensorproof")
    assert package["version"] == __version__ and "dependencies" not in package
    assert {asset.get("Path") for asset in manifest.iterfind("v:Assets/v:Asset", space)} <= names
    described = {kind.get("Extension") for kind in media_types}
    assert {Path(name).suffix for name in names} - {".xml"} <= described


def test_the_extension_and_the_server_understand_each_other(tmp_path: Path) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    path = tmp_path / "модель 1.py"
    path.write_text(DEFECT, "utf-8")
    command = [node, str(EXTENSION / "test" / "session.js"), str(path), *SERVER]
    result = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert result.returncode == 0, result.stderr
    shown = json.loads(result.stdout)
    assert shown["messages"] == [] and "Traceback" not in shown["log"]
    assert (shown["problem"]["code"], shown["problem"]["severity"], shown["problem"]["range"]["start"]["line"]) == ("SHP105", 0, 5)
    assert shown["problem"]["related"] >= 1
    assert [{"line": 5, "character": 1}, ": f32[8, 5]", 1] in shown["hints"]
    (edit,) = shown["actions"][0]["edits"]
    assert (edit["uri"], edit["text"], edit["range"]["start"]) == (path.as_uri(), "20", {"line": 4, "character": 18})
    assert all(action["mends"] == 1 for action in shown["actions"])
    assert shown["after"] == 0
