"""What the site has besides the pages of mkdocs.yml: rules and CONTRIBUTING.md."""

from __future__ import annotations

import posixpath
import re
from itertools import groupby
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]

_UPWARD = re.compile(r"(?<!!)\[(?P<text>[^\]]+)\]\((?P<path>\.\./[^)#]*)(?P<anchor>#[^)]*)?\)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Lists the pages of rules by family."""
    docs = Path(config.docs_dir)
    sections: dict[str, list[Any]] = {title: pages for entry in config.nav or [] for title, pages in entry.items()}
    rules = next(entry["Rules"] for entry in sections["Reference"] if "Rules" in entry)
    pages = sorted(path.relative_to(docs).as_posix() for path in (docs / "reference" / "rules").glob("*.md"))
    for family, listed in groupby(pages, key=lambda page: Path(page).name[:4]):
        rules.append({f"{family}xx": list(listed)})
    return config


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Adds the page for contributors."""
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8").replace("](docs/", "](")
    files.append(File.generated(config, "contributing.md", content=text))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Links to files of the repository that are not under docs/: to the page for contributors, or else their words alone."""
    folder = posixpath.dirname(page.file.src_uri)

    def on_the_site(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(folder, link["path"]))
        if not target.startswith("../"):
            return link[0]
        if target == "../CONTRIBUTING.md":
            return f"[{link['text']}]({posixpath.relpath('contributing.md', folder or '.')}{link['anchor'] or ''})"
        return link["text"]

    return _UPWARD.sub(on_the_site, markdown)
