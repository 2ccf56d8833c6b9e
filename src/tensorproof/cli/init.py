"""The `init` command: a commented configuration, and files for continuous integration, written into a project."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tensorproof.errors import ConfigurationError
from tensorproof.files import write_text
from tensorproof.project_files.ci_files import ci_file
from tensorproof.project_files.configuration_text import configuration_text, with_configuration
from tensorproof.project_files.found_models import MOST_MODELS, find_models, read_model
from tensorproof.report.plain_text import one_line


@dataclass(frozen=True, slots=True)
class InitOptions:
    """The options of the command, as given."""

    folder: Path
    ci: tuple[str, ...]
    force: bool


def run_init(options: InitOptions) -> int:
    """Write the files, all of them or none: what stands in the way of one is found before the first is written."""
    folder = options.folder
    if not folder.is_dir():
        raise ConfigurationError(f"{folder}: no such folder")
    paths = find_models(folder)
    models = [read_model(folder, path) for path in paths[:MOST_MODELS]]
    project = folder / "pyproject.toml"
    section = configuration_text(models, further=max(0, len(paths) - MOST_MODELS))
    texts = {project: with_configuration(_existing(project), section, force=options.force, where=str(project))}
    remarks: list[str] = []
    # A name that a list of lines, or an expression of a workflow, would read otherwise is not written into one.
    plain = [path for path in paths if path.isprintable() and "${{" not in path]
    for file in (ci_file(kind, plain) for kind in dict.fromkeys(options.ci)):
        path = folder / file.path
        if path.exists() and not options.force:
            raise ConfigurationError(f"{path}: is there already; --force overwrites it")
        texts[path] = file.text
        remarks += [file.remark] if file.remark else []
    for path, text in texts.items():
        try:
            write_text(path, text)
        except OSError as error:
            raise ConfigurationError(f"{path}: cannot be written ({error.strerror})") from None
        print(f"written: {one_line(str(path))}")
    for model in models:
        told = f"cannot be read: {one_line(model.problem, 200)}" if model.problem is not None else _inputs(model.inputs)
        print(f"found: {one_line(model.path)}, {told}")
    for remark in remarks:
        print(f"to do: {remark}")
    return 0


def _inputs(names: Iterable[str]) -> str:
    listed = ", ".join(map(one_line, names))
    return f"inputs {listed}" if listed else "no inputs"


def _existing(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except FileNotFoundError:
        return ""
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{path}: cannot be read ({error})") from None
