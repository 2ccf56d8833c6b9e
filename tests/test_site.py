"""The documentation site: built strictly, complete, and made of its own files alone."""

from __future__ import annotations

import re
import shutil
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest
from docs import site

pytestmark = pytest.mark.area("documents")


class Resources(HTMLParser):
    """What a page loads by itself (not the links that a reader may follow), and the links inside of the site."""

    def __init__(self) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.linked: list[str] = []
        self.names: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.names |= {name for name in (given.get("id"), given.get("name")) if name}
        if (source := given.get("src")) is not None:
            self.loaded.append(source)
        if (target := given.get("href")) is not None:
            (self.linked if tag == "a" else self.loaded).append(target)


def read(page: Path) -> Resources:
    resources = Resources()
    resources.feed(page.read_text("utf-8"))
    return resources


def on_the_site(built: Path, source: Path) -> Path:
    """Where a file of docs/ is on the site."""
    if source.suffix != ".md":
        return built / source
    return built / (source.with_name("index.html") if source.name == "README.md" else source.with_suffix(".html"))


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    result = site.build(folder)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "WARNING" not in result.stderr, result.stderr
    return folder


def test_pages_load_nothing_from_elsewhere(built: Path) -> None:
    pages = sorted(built.rglob("*.html"))
    assert len(pages) > 100
    for page in pages:
        for source in read(page).loaded:
            assert not re.match(r"(https?:)?//", source), f"{page.relative_to(built)} loads {source}"
    for sheet in built.rglob("*.css"):
        assert not re.search(r"url\([\"']?(https?:)?//", sheet.read_text("utf-8")), sheet.name
    assert "http" not in re.sub(r"http://www\.w3\.org/\S+", "", (built / "pictures" / "session.svg").read_text("utf-8")).replace(
        "https://www.textualize.io", ""
    )


def test_links_inside_lead_to_pages_and_headings(built: Path) -> None:
    known: dict[Path, Resources] = {page.resolve(): read(page) for page in built.rglob("*.html")}
    for page, resources in known.items():
        if page.name == "404.html":
            continue
        for target in resources.linked:
            if re.match(r"[a-z]+:", target):
                continue
            path, _, anchor = target.partition("#")
            wanted = (page.parent / unquote(path)).resolve() if path else page
            wanted = wanted / "index.html" if wanted.is_dir() else wanted
            assert wanted.is_file(), f"{page.name}: {target}"
            if anchor and wanted.suffix == ".html":
                assert unquote(anchor) in known[wanted].names, f"{page.name}: {target}"


def test_every_link_and_picture_of_a_page_is_on_the_site(built: Path) -> None:
    docs = site.ROOT / "docs"
    seen = 0
    for source in docs.rglob("*.md"):
        page = on_the_site(built, source.relative_to(docs))
        resources = read(page)
        present = {(page.parent / unquote(target.partition("#")[0])).resolve() for target in resources.linked + resources.loaded}
        for target in re.findall(r"\]\((?!https?:|#)([^)#\s]+)", source.read_text("utf-8")):
            wanted = (source.parent / target).resolve()
            if not wanted.is_relative_to(docs):
                continue
            assert on_the_site(built, wanted.relative_to(docs)).resolve() in present, f"{source.name}: {target}"
            seen += 1
    assert seen > 500
    outside = (built / "how-to" / "custom-operators.html").read_text("utf-8")
    assert "../contributing.html#add-an-operator" in outside


def test_a_broken_link_fails_the_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("docs", "mkdocs.yml", "CONTRIBUTING.md"):
        source = site.ROOT / name
        shutil.copytree(source, tmp_path / name) if source.is_dir() else shutil.copy(source, tmp_path / name)
    monkeypatch.setattr(site, "ROOT", tmp_path)
    page = tmp_path / "docs" / "how-to.md"
    page.write_text(page.read_text("utf-8") + "\n[a](explanation.md#no-such-heading)\n")
    result = site.build(tmp_path / "site")
    assert result.returncode != 0
    assert "no-such-heading" in result.stderr
