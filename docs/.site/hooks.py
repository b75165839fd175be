"""Pages of the site that lie outside `docs`, and the links that lead there."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

OUTSIDE = {
    "CHANGELOG.md": "project/changelog.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "SECURITY.md": "project/security.md",
    "charts/kafka-features-operator/README.md": "reference/chart.md",
    "Dockerfile": "reference/Dockerfile.txt",
    "Dockerfile.kerberos": "reference/Dockerfile.kerberos.txt",
    ".github/workflows/release.yml": "reference/release.yml.txt",
}
"""A file of the repository, and where it is on the site."""
_LINK = re.compile(r"\]\(([^)#:]+)(#[^)]*)?\)")
_PAGE = re.compile(r"`(docs/[\w/-]+\.md)`")
"""How the README of the chart names a page: its packages have no docs, so that a link would lead nowhere there."""

_IDENTIFIER = re.compile(r"<code>([\w./,|=:{}\[\] -]+)</code>")
_BETWEEN_PARTS = re.compile(r"(?<=[./,|=])(?=\w)")
_BETWEEN_WORDS = re.compile(r"(?<=_)(?=\w)|(?<=[a-z])(?=[A-Z])")
_LONG = 20
"""Characters of a part of an identifier from which on it may break between its words."""
_TABLE = re.compile(r"<table>.*?</table>", re.DOTALL)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the files from outside, and the style, which lies beside this file."""
    for source, page in OUTSIDE.items():
        text = (Path(config.docs_dir).parent / source).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=_relinked(text, source)))
    style = Path(config.docs_dir) / ".site" / "site.css"
    files.append(File.generated(config, style.name, content=style.read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Lead links out of `docs` to these."""
    return markdown if page.file.src_uri in OUTSIDE.values() else _relinked(markdown, f"docs/{page.file.src_uri}")


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let code in tables break behind dots, slashes and other signs only, a very long name also between its words; and
    name each cell by its column: on a narrow screen a row becomes a card without the row of headings.
    """
    return _TABLE.sub(_table_for_screens, html)


def _table_for_screens(found: re.Match[str]) -> str:
    table = _IDENTIFIER.sub(lambda code: f'<code class="name">{_breakable(code[1])}</code>', found[0])
    headings = [re.sub("<[^>]*>", "", heading) for heading in re.findall(r"<th[^>]*>(.*?)</th>", table, re.DOTALL)]
    return "<tr>".join(_named_row(row, iter(headings)) for row in table.split("<tr>"))


def _breakable(identifier: str) -> str:
    parts = _BETWEEN_PARTS.split(identifier)
    return "<wbr>".join(_BETWEEN_WORDS.sub("<wbr>", part) if len(part) > _LONG else part for part in parts)


def _named_row(row: str, names: Iterator[str]) -> str:
    return re.sub("<td", lambda _: f'<td data-column="{next(names, "").replace(chr(34), "&quot;")}"', row)


def _relinked(text: str, source: str) -> str:
    """The text of a file of the repository, with links as its page has to have them."""
    here = posixpath.dirname(_page_of(source)) or "."
    if source.startswith("charts/"):
        text = _PAGE.sub(lambda found: f"[{found[1]}]({posixpath.relpath(found[1], posixpath.dirname(source))})", text)

    def led(found: re.Match[str]) -> str:
        there = _page_of(posixpath.normpath(posixpath.join(posixpath.dirname(source), found[1])))
        return f"]({posixpath.relpath(there, here)}{found[2] or ''})" if there else found[0]

    return _LINK.sub(led, text)


def _page_of(source: str) -> str:
    """Where a file of the repository is on the site; empty where it is not there."""
    return OUTSIDE.get(source, source.removeprefix("docs/") if source.startswith("docs/") else "")
