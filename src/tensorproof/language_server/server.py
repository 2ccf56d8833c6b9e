"""The server: open documents, their analyses in time, and the requests of an editor.

Everything here runs on the thread of the event loop, but for the analyses: those run one after the other on a thread of their
own. A change of a document cancels what is under way for its older text, so a result that arrives is never outdated. Requests
wait for the analysis of the newest text; while that does not parse they are answered with what still holds of the last result.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import BinaryIO

from lsprotocol import types
from pygls.lsp.server import LanguageServer
from pygls.workspace import TextDocument

from tensorproof import __version__
from tensorproof.language_server.actions import code_actions
from tensorproof.language_server.analysing import Request, analyse
from tensorproof.language_server.hints import inlay_hints
from tensorproof.language_server.hovering import hover
from tensorproof.language_server.positions import SourceText
from tensorproof.language_server.snapshot import Snapshot

#: Seconds without a change after which a document is analysed.
QUIET = 0.2
#: Bytes of stack of the thread that analyses: it follows deep calls, and some systems give threads very little.
STACK = 64 * 2**20


@dataclass(slots=True)
class OpenDocument:
    """The analysis under way, what is known of the last text that parsed, and what the log says of the document."""

    task: asyncio.Task[None]
    snapshot: Snapshot | None = None
    complaint: str | None = None


class ShapeServer(LanguageServer):
    """The language server of tensorproof."""

    def __init__(self) -> None:
        # Whole texts: pygls applies partial changes by `str.splitlines`, which knows more line ends than editors do.
        super().__init__("tensorproof", __version__, text_document_sync_kind=types.TextDocumentSyncKind.Full)
        self._documents: dict[str, OpenDocument] = {}
        self._analyst = ThreadPoolExecutor(1, thread_name_prefix="analysis")
        self.asked_to_stop = False

    # -- documents ----------------------------------------------------------------------------------------------------

    def analyse_soon(self, uri: str, delay: float = 0.0) -> None:
        """Analyse the newest text of an open document after a while, instead of what is planned or under way for it."""
        document = self.workspace.get_text_document(uri)
        task = asyncio.create_task(self._analyse(document, document.version, SourceText(document.source, self._encoding), delay))
        if (known := self._documents.get(uri)) is None:
            self._documents[uri] = OpenDocument(task)
        else:
            known.task.cancel()
            known.task = task

    async def analyse_others(self, uri: str) -> None:
        """Analyse again what is open beside a document that was saved: it may be imported there."""
        others = [other for other in self._documents if other != uri]
        for other in others:
            self.analyse_soon(other)
        for other in others:
            await self.settled(other)
        workspace = self.client_capabilities.workspace
        if others and workspace is not None and workspace.inlay_hint is not None and workspace.inlay_hint.refresh_support:
            await self.workspace_inlay_hint_refresh_async(None)

    def forget(self, uri: str) -> None:
        """Drop a document that was closed, and what the editor shows of it."""
        if (known := self._documents.pop(uri, None)) is not None:
            known.task.cancel()
        self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, []))

    def stop_analysing(self) -> None:
        """Start no further analysis; the one that runs, if any, ends by itself."""
        self._analyst.shutdown(wait=False, cancel_futures=True)

    async def settled(self, uri: str) -> Snapshot | None:
        """What is known of the newest text; None if it never parsed."""
        while (known := self._documents.get(uri)) is not None and not known.task.done():
            await asyncio.wait({known.task})
        return None if known is None else known.snapshot

    async def _analyse(self, document: TextDocument, version: int | None, source: SourceText, delay: float) -> None:
        await asyncio.sleep(delay)
        known = self._documents[document.uri]
        request = Request(document.uri, document.path, self.workspace.root_path, source, known.snapshot, self.shows_related)
        outcome = await asyncio.get_running_loop().run_in_executor(self._analyst, analyse, request)
        known.snapshot = outcome.snapshot
        # Said once, not at every key.
        if outcome.complaint is not None and outcome.complaint != known.complaint:
            self.window_log_message(types.LogMessageParams(types.MessageType.Error, f"tensorproof: {outcome.complaint}"))
        known.complaint = outcome.complaint
        self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(document.uri, outcome.diagnostics, version))

    # -- the editor ---------------------------------------------------------------------------------------------------

    @property
    def _encoding(self) -> str:
        encoding = self.server_capabilities.position_encoding
        return str(getattr(encoding, "value", encoding))

    @property
    def shows_related(self) -> bool:
        """Whether the editor shows related places of a diagnostic by itself."""
        document = self.client_capabilities.text_document
        published = None if document is None else document.publish_diagnostics
        return published is not None and bool(published.related_information)


def create_server() -> ShapeServer:
    """A server with all its features."""
    server = ShapeServer()

    @server.feature(types.TEXT_DOCUMENT_DID_OPEN)
    def did_open(params: types.DidOpenTextDocumentParams) -> None:
        server.analyse_soon(params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    def did_change(params: types.DidChangeTextDocumentParams) -> None:
        server.analyse_soon(params.text_document.uri, QUIET)

    @server.feature(types.TEXT_DOCUMENT_DID_SAVE)
    async def did_save(params: types.DidSaveTextDocumentParams) -> None:
        await server.analyse_others(params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_CLOSE)
    def did_close(params: types.DidCloseTextDocumentParams) -> None:
        server.forget(params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_INLAY_HINT)
    async def hint(params: types.InlayHintParams) -> list[types.InlayHint]:
        snapshot = await server.settled(params.text_document.uri)
        return [] if snapshot is None else inlay_hints(snapshot, params.range)

    @server.feature(types.TEXT_DOCUMENT_HOVER)
    async def hovered(params: types.HoverParams) -> types.Hover | None:
        snapshot = await server.settled(params.text_document.uri)
        return None if snapshot is None else hover(snapshot, params.position)

    @server.feature(types.TEXT_DOCUMENT_CODE_ACTION, types.CodeActionOptions([types.CodeActionKind.QuickFix]))
    async def act(params: types.CodeActionParams) -> list[types.CodeAction]:
        snapshot = await server.settled(params.text_document.uri)
        return [] if snapshot is None else code_actions(snapshot, params, shows_related=server.shows_related)

    @server.feature(types.SHUTDOWN)
    def stop(_: None) -> None:
        server.asked_to_stop = True

    return server


def serve() -> int:
    """Serve one editor over standard input and output until it leaves; 0 if it said so before."""
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    threading.stack_size(STACK)
    server = create_server()
    with _protocol_output() as output:
        server.start_io(stdout=output)
    server.stop_analysing()
    return 0 if server.asked_to_stop else 1


def _protocol_output() -> BinaryIO:
    """Standard output for the protocol alone: whatever else is printed goes to standard error."""
    sys.stdout.flush()
    output = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return output
