// Drives the extension against a real server, with a stand-in for the editor: node session.js FILE COMMAND...
// Prints what the editor would show as one line of JSON.
"use strict";

const fs = require("node:fs");
const Module = require("node:module");
const url = require("node:url");

const [file, ...command] = process.argv.slice(2);

class Position {
  constructor(line, character) {
    Object.assign(this, { line, character });
  }
}
class Range {
  constructor(line, character, endLine, endCharacter) {
    this.start = new Position(line, character);
    this.end = new Position(endLine, endCharacter);
  }
}
class Record {
  constructor(...fields) {
    this.fields = fields;
  }
}
class WorkspaceEdit {
  replacements = [];
  replace(uri, range, text) {
    this.replacements.push({ uri: uri.toString(), range, text });
  }
}
class EventEmitter {
  event = () => ({ dispose() {} });
  fire() {}
  dispose() {}
}
class Uri {
  constructor(text) {
    this.text = text;
    this.scheme = text.split(":")[0];
  }
  static parse(text) {
    return new Uri(text);
  }
  toString() {
    return this.text;
  }
}

const document = {
  uri: Uri.parse(url.pathToFileURL(file).toString()),
  languageId: "python",
  version: 1,
  text: fs.readFileSync(file, "utf8"),
  getText() {
    return this.text;
  },
};
const listeners = {};
const providers = {};
const shown = { log: "", messages: [] };
let published = () => {};

const collection = {
  set(_uri, diagnostics) {
    published(diagnostics);
  },
  clear() {},
  dispose() {},
};
const listen = (name) => (listener) => {
  listeners[name] = listener;
  return { dispose() {} };
};
const provide = (name) => (_selector, provider) => {
  providers[name] = provider;
  return { dispose() {} };
};
const editor = {
  Position,
  Range,
  Uri,
  WorkspaceEdit,
  EventEmitter,
  Location: Record,
  Diagnostic: Record,
  DiagnosticRelatedInformation: Record,
  InlayHint: Record,
  Hover: Record,
  MarkdownString: Record,
  CodeAction: Record,
  CodeActionKind: { QuickFix: { value: "quickfix" } },
  InlayHintKind: { Type: 1 },
  DiagnosticSeverity: { Error: 0, Warning: 1, Information: 2, Hint: 3 },
  commands: { registerCommand: () => ({ dispose() {} }) },
  extensions: { getExtension: () => undefined },
  languages: {
    createDiagnosticCollection: () => collection,
    match: (selector, one) => (selector.some((s) => s.language === one.languageId && s.scheme === one.uri.scheme) ? 10 : 0),
    registerInlayHintsProvider: provide("hints"),
    registerHoverProvider: provide("hover"),
    registerCodeActionsProvider: provide("actions"),
  },
  window: {
    createOutputChannel: () => ({
      append: (text) => (shown.log += text),
      appendLine: (text) => (shown.log += `${text}\n`),
      dispose() {},
    }),
    showErrorMessage: async (text) => void shown.messages.push(text),
  },
  workspace: {
    textDocuments: [document],
    getConfiguration: () => ({ get: () => command }),
    onDidOpenTextDocument: listen("open"),
    onDidChangeTextDocument: listen("change"),
    onDidSaveTextDocument: listen("save"),
    onDidCloseTextDocument: listen("close"),
  },
};

const load = Module._load;
Module._load = (name, ...rest) => (name === "vscode" ? editor : load(name, ...rest));
const extension = require("../extension.js");

function nextDiagnostics() {
  return new Promise((resolve) => (published = resolve));
}

async function main() {
  const first = nextDiagnostics();
  const context = { subscriptions: [] };
  await extension.activate(context);
  const [problem] = await first;
  const token = { onCancellationRequested() {} };
  const whole = new Range(0, 0, 1000, 0);
  const [range, message, severity] = problem.fields;
  shown.problem = { range, message, severity, code: problem.code, related: problem.relatedInformation.length };
  shown.hints = (await providers.hints.provideInlayHints(document, whole, token)).map((hint) => hint.fields);
  const hover = await providers.hover.provideHover(document, range.start, token);
  shown.hover = hover ? hover.fields[0].fields[0] : null;
  const actions = await providers.actions.provideCodeActions(document, range, { diagnostics: [problem] }, token);
  shown.actions = actions.map((action) => ({
    title: action.fields[0],
    edits: action.edit.replacements,
    mends: action.diagnostics.length,
  }));
  const second = nextDiagnostics();
  document.version = 2;
  document.text = "x = 1\n";
  listeners.change({ document });
  shown.after = (await second).length;
  await extension.deactivate();
  console.log(JSON.stringify(shown));
}

main().catch((error) => {
  console.error(error, shown);
  process.exit(1);
});
