// The client of `tensorproof lsp` for Visual Studio Code. It speaks the few messages that the server knows by itself,
// so that the extension needs no other package.
"use strict";

const { spawn } = require("node:child_process");
const vscode = require("vscode");

const SELECTOR = [
  { language: "python", scheme: "file" },
  { language: "python", scheme: "untitled" },
];
const SEVERITIES = {
  1: vscode.DiagnosticSeverity.Error,
  2: vscode.DiagnosticSeverity.Warning,
  3: vscode.DiagnosticSeverity.Information,
  4: vscode.DiagnosticSeverity.Hint,
};
const METHOD_NOT_FOUND = -32601;
const SHUTDOWN_PATIENCE = 2000;

/** JSON-RPC over the standard input and output of a process. */
class Connection {
  constructor(child, handlers) {
    this.child = child;
    this.handlers = handlers;
    this.pending = new Map();
    this.lastId = 0;
    this.received = Buffer.alloc(0);
    child.stdout.on("data", (chunk) => this.receive(chunk));
    // The exit of the process is what matters; a write that comes too late does not.
    child.stdin.on("error", () => {});
  }

  notify(method, params) {
    this.send({ method, params });
  }

  /** The result of a request; a token of the editor cancels it. */
  request(method, params, token) {
    const id = ++this.lastId;
    const answer = new Promise((resolve, reject) => this.pending.set(id, { resolve, reject }));
    this.send({ id, method, params });
    if (token) {
      token.onCancellationRequested(() => this.notify("$/cancelRequest", { id }));
    }
    return answer;
  }

  close(reason) {
    for (const { reject } of this.pending.values()) {
      reject(new Error(reason));
    }
    this.pending.clear();
  }

  send(message) {
    const body = Buffer.from(JSON.stringify({ jsonrpc: "2.0", ...message }), "utf8");
    this.child.stdin.write(`Content-Length: ${body.length}\r\n\r\n`);
    this.child.stdin.write(body);
  }

  receive(chunk) {
    this.received = Buffer.concat([this.received, chunk]);
    for (;;) {
      const end = this.received.indexOf("\r\n\r\n");
      if (end < 0) {
        return;
      }
      const length = /content-length: *(\d+)/i.exec(this.received.toString("ascii", 0, end));
      const first = end + 4;
      const last = first + (length ? Number(length[1]) : 0);
      if (this.received.length < last) {
        return;
      }
      const body = this.received.toString("utf8", first, last);
      this.received = this.received.subarray(last);
      if (body) {
        this.dispatch(JSON.parse(body));
      }
    }
  }

  dispatch(message) {
    if (message.method === undefined) {
      const waiting = this.pending.get(message.id);
      this.pending.delete(message.id);
      if (waiting && message.error) {
        waiting.reject(new Error(message.error.message));
      } else if (waiting) {
        waiting.resolve(message.result);
      }
      return;
    }
    const handler = this.handlers[message.method];
    const result = handler ? handler(message.params) : undefined;
    if (message.id !== undefined) {
      const error = { code: METHOD_NOT_FOUND, message: `unknown method ${message.method}` };
      this.send(handler ? { id: message.id, result: result ?? null } : { id: message.id, error });
    }
  }
}

/** One running server, and what the editor shows of its answers. */
class Client {
  constructor(log) {
    this.log = log;
    this.diagnostics = vscode.languages.createDiagnosticCollection("tensorproof");
    this.hintsChanged = new vscode.EventEmitter();
    this.connection = undefined;
    this.ready = Promise.resolve(false);
  }

  async start() {
    const [program, ...rest] = await serverCommand();
    this.log.appendLine(`starting ${[program, ...rest].join(" ")}`);
    const folder = vscode.workspace.workspaceFolders?.[0]?.uri;
    const child = spawn(program, rest, { cwd: folder?.scheme === "file" ? folder.fsPath : undefined });
    child.stderr.on("data", (text) => this.log.append(text.toString()));
    const connection = new Connection(child, {
      "textDocument/publishDiagnostics": (params) => this.publish(params),
      "window/logMessage": (params) => this.log.appendLine(params.message),
      "window/showMessage": (params) => this.log.appendLine(params.message),
      "workspace/inlayHint/refresh": () => this.hintsChanged.fire(),
    });
    this.connection = connection;
    child.on("error", (error) => this.ended(connection, `cannot be started: ${error.message}`));
    child.on("exit", (code) => this.ended(connection, `ended with code ${code}`));
    this.ready = this.initialize(connection, folder);
    await this.ready;
  }

  async initialize(connection, folder) {
    try {
      await connection.request("initialize", {
        processId: process.pid,
        rootUri: folder ? folder.toString() : null,
        capabilities: {
          general: { positionEncodings: ["utf-16"] },
          textDocument: { publishDiagnostics: { relatedInformation: true, versionSupport: true } },
          workspace: { inlayHint: { refreshSupport: true } },
        },
      });
    } catch (error) {
      this.log.appendLine(String(error));
      return false;
    }
    connection.notify("initialized", {});
    vscode.workspace.textDocuments.forEach((document) => this.opened(document, connection));
    return true;
  }

  async stop() {
    const connection = this.connection;
    this.connection = undefined;
    this.diagnostics.clear();
    if (!connection) {
      return;
    }
    const { child } = connection;
    const gone = new Promise((resolve) => child.once("exit", resolve));
    const late = setTimeout(() => child.kill(), SHUTDOWN_PATIENCE);
    try {
      await connection.request("shutdown", null);
      connection.notify("exit", null);
      await gone;
    } catch {
      child.kill();
    }
    clearTimeout(late);
  }

  /** A server that ends by itself is the user's to know; one that was stopped is not. */
  async ended(connection, how) {
    connection.close(how);
    if (this.connection !== connection) {
      return;
    }
    this.connection = undefined;
    this.diagnostics.clear();
    this.log.appendLine(`the server ${how}`);
    const choice = await vscode.window.showErrorMessage(
      `tensorproof: the server ${how}. Is it installed? pip install "tensorproof[lsp]"`,
      "Restart",
      "Show log",
    );
    if (choice === "Restart") {
      await this.start();
    } else if (choice === "Show log") {
      this.log.show();
    }
  }

  /** An answer about a document, undefined where there is no server. */
  async ask(method, document, params, token) {
    if (!(await this.ready) || !this.connection) {
      return undefined;
    }
    try {
      return await this.connection.request(method, { textDocument: identifier(document), ...params }, token);
    } catch (error) {
      this.log.appendLine(`${method}: ${error.message}`);
      return undefined;
    }
  }

  tell(method, document, params) {
    if (this.connection && isOurs(document)) {
      this.connection.notify(method, params);
    }
  }

  opened(document, connection = this.connection) {
    if (connection && isOurs(document)) {
      const item = { uri: document.uri.toString(), languageId: "python", version: document.version, text: document.getText() };
      connection.notify("textDocument/didOpen", { textDocument: item });
    }
  }

  changed({ document }) {
    const textDocument = { ...identifier(document), version: document.version };
    this.tell("textDocument/didChange", document, { textDocument, contentChanges: [{ text: document.getText() }] });
  }

  publish({ uri, version, diagnostics }) {
    const target = vscode.Uri.parse(uri);
    const document = vscode.workspace.textDocuments.find((one) => one.uri.toString() === target.toString());
    if (document && typeof version === "number" && document.version !== version) {
      return;
    }
    this.diagnostics.set(target, diagnostics.map(toDiagnostic));
  }
}

function isOurs(document) {
  return vscode.languages.match(SELECTOR, document) > 0;
}

function identifier(document) {
  return { uri: document.uri.toString() };
}

function toRange({ start, end }) {
  return new vscode.Range(start.line, start.character, end.line, end.character);
}

function fromPosition({ line, character }) {
  return { line, character };
}

function fromRange({ start, end }) {
  return { start: fromPosition(start), end: fromPosition(end) };
}

function toDiagnostic(item) {
  const diagnostic = new vscode.Diagnostic(toRange(item.range), item.message, SEVERITIES[item.severity]);
  diagnostic.code = item.code;
  diagnostic.source = item.source;
  diagnostic.relatedInformation = (item.relatedInformation ?? []).map(
    ({ location, message }) =>
      new vscode.DiagnosticRelatedInformation(new vscode.Location(vscode.Uri.parse(location.uri), toRange(location.range)), message),
  );
  return diagnostic;
}

function toHint(item) {
  return new vscode.InlayHint(new vscode.Position(item.position.line, item.position.character), item.label, vscode.InlayHintKind.Type);
}

function toAction(item, shown) {
  const action = new vscode.CodeAction(item.title, vscode.CodeActionKind.QuickFix);
  action.edit = new vscode.WorkspaceEdit();
  for (const [uri, edits] of Object.entries(item.edit.changes)) {
    for (const edit of edits) {
      action.edit.replace(vscode.Uri.parse(uri), toRange(edit.range), edit.newText);
    }
  }
  action.isPreferred = item.isPreferred ?? false;
  const codes = new Set((item.diagnostics ?? []).map((diagnostic) => diagnostic.code));
  action.diagnostics = shown.filter((diagnostic) => diagnostic.source === "tensorproof" && codes.has(diagnostic.code));
  return action;
}

/** The setting; or the interpreter of the Python extension; or what the search path has. */
async function serverCommand() {
  const configured = vscode.workspace.getConfiguration("tensorproof").get("command");
  if (configured && configured.length > 0) {
    return configured;
  }
  const python = vscode.extensions.getExtension("ms-python.python");
  if (python) {
    const api = await python.activate();
    const environments = (api ?? python.exports)?.environments;
    const environment = environments && (await environments.resolveEnvironment(environments.getActiveEnvironmentPath()));
    const interpreter = environment?.executable?.uri?.fsPath;
    if (interpreter) {
      return [interpreter, "-m", "tensorproof", "lsp"];
    }
  }
  return ["tensorproof", "lsp"];
}

function registerProviders(client) {
  return [
    vscode.languages.registerInlayHintsProvider(SELECTOR, {
      onDidChangeInlayHints: client.hintsChanged.event,
      async provideInlayHints(document, range, token) {
        const hints = await client.ask("textDocument/inlayHint", document, { range: fromRange(range) }, token);
        return (hints ?? []).map(toHint);
      },
    }),
    vscode.languages.registerHoverProvider(SELECTOR, {
      async provideHover(document, position, token) {
        const hover = await client.ask("textDocument/hover", document, { position: fromPosition(position) }, token);
        return hover ? new vscode.Hover(new vscode.MarkdownString(hover.contents.value)) : undefined;
      },
    }),
    vscode.languages.registerCodeActionsProvider(
      SELECTOR,
      {
        async provideCodeActions(document, range, context, token) {
          const only = context.only ? [context.only.value] : undefined;
          const params = { range: fromRange(range), context: { diagnostics: [], only } };
          const actions = await client.ask("textDocument/codeAction", document, params, token);
          return (actions ?? []).map((action) => toAction(action, context.diagnostics));
        },
      },
      { providedCodeActionKinds: [vscode.CodeActionKind.QuickFix] },
    ),
  ];
}

let client;

async function activate(context) {
  const log = vscode.window.createOutputChannel("tensorproof");
  client = new Client(log);
  context.subscriptions.push(
    log,
    client.diagnostics,
    client.hintsChanged,
    vscode.workspace.onDidOpenTextDocument((document) => client.opened(document)),
    vscode.workspace.onDidChangeTextDocument((event) => client.changed(event)),
    vscode.workspace.onDidSaveTextDocument((document) =>
      client.tell("textDocument/didSave", document, { textDocument: identifier(document) }),
    ),
    vscode.workspace.onDidCloseTextDocument((document) =>
      client.tell("textDocument/didClose", document, { textDocument: identifier(document) }),
    ),
    vscode.commands.registerCommand("tensorproof.restart", async () => {
      await client.stop();
      await client.start();
    }),
    ...registerProviders(client),
  );
  await client.start();
}

async function deactivate() {
  await client?.stop();
}

module.exports = { activate, deactivate };
