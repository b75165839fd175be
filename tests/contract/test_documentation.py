"""Documents and links on pages: the operator accepts each document, and each link leads to a page and its heading."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import yaml

from kafkafeatures import __version__
from kafkafeatures.api.document import read_document
from tests.examples import PAGES, ROOT

BLOCK = re.compile(r"^```ya?ml\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE)
FENCED = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"(?<!!)\[[^\]]*\]\((?P<to>[^)\s]+)\)")
HEADING = re.compile(r"^#+ +(?P<title>.+?)\s*$", re.MULTILINE)


def documents() -> Iterator[tuple[str, object]]:
    """Each whole KafkaFeatures document of a page."""
    for page in PAGES:
        for number, block in enumerate(BLOCK.finditer((ROOT / page).read_text()), 1):
            for one in yaml.safe_load_all(block["text"]):
                if not isinstance(one, dict):
                    continue
                if one.get("kind") == "KafkaFeatures":
                    yield f"{page}, block {number}", one


DOCUMENTS = dict(documents())


@pytest.mark.parametrize("where", DOCUMENTS)
def test_a_document_on_a_page_is_valid(where: str) -> None:
    read_document(DOCUMENTS[where])


def test_documents_are_found_on_the_pages_about_other_operators_and_charts() -> None:
    """That with Strimzi shows what `init` prints (`kafkafeatures/cli/test_strimzi.py` reads it)."""
    pages = {where.partition(",")[0] for where in DOCUMENTS}
    assert {f"docs/how-to/with-{name}.md" for name in ("confluent", "other-charts")} <= pages


def links(page: str) -> Iterator[str]:
    """Links of a page to other files of this repository, or to headings of its own."""
    for found in LINK.finditer(FENCED.sub("", (ROOT / page).read_text())):
        if not re.match(r"[a-z]+:", found["to"]):
            yield found["to"]


@cache
def anchors(path: Path) -> frozenset[str]:
    """The headings of a page, as forges and MkDocs make them into anchors."""
    titles = (one["title"] for one in HEADING.finditer(FENCED.sub("", path.read_text())))
    return frozenset(re.sub(r"[^\w\- ]", "", one.lower()).replace(" ", "-") for one in titles)


@pytest.mark.parametrize("page", PAGES)
def test_each_link_of_a_page_leads_to_a_file_and_to_a_heading_that_exist(page: str) -> None:
    dead = []
    for to in links(page):
        name, _, anchor = to.partition("#")
        path = (ROOT / page).parent / name if name else ROOT / page
        if not path.exists() or (anchor and anchor not in anchors(path)):
            dead.append(to)
    assert not dead


ABOUT_OTHERS = (
    *(page for page in PAGES if page.startswith("docs/how-to/with-")),
    "docs/how-to/argo-cd.md",
    "docs/how-to/drain-a-node.md",
    "docs/how-to/flux.md",
    "docs/how-to/in-other-consoles.md",
    "docs/explanation/compared.md",
)
"""Pages with sentences about other products, which are to be checked against what those say of themselves."""
REFERENCE = re.compile(r"(?<!\])\[(?P<number>[0-9]+)\](?!\()")
TARGET = re.compile(r"^\[(?P<number>[0-9]+)\]: (?P<to>https://\S+)$", re.MULTILINE)
SOURCE = re.compile(r"^- \[(?P<number>[0-9]+)\] \S", re.MULTILINE)
READ_ON = re.compile(r"^Read on [0-9]{1,2} [A-Z][a-z]+ 20[0-9]{2}", re.MULTILINE)
FIXED = re.compile(r"/(blob|tree)/[0-9a-f]{7,40}(/|$)|/blob/[\w-]+/[0-9.]+/|/(issues|pull)/[0-9]+$|//docs\.[\w.]+/")
"""A file at a commit or a release, an issue, or a page of a vendor's documentation: no branch, which changes."""


def sources(page: str) -> tuple[str, str]:
    """The text of a page, without blocks of code, and its sources."""
    text, _, found = FENCED.sub("", (ROOT / page).read_text()).partition("\n## Sources\n")
    return text, found


@pytest.mark.parametrize("page", ABOUT_OTHERS)
def test_a_page_about_other_products_has_sources_with_the_date_of_reading(page: str) -> None:
    _, found = sources(page)
    assert READ_ON.search(found), "expected a section Sources that begins with 'Read on 28 November 2026'"


@pytest.mark.parametrize("page", ABOUT_OTHERS)
def test_each_number_of_a_page_is_a_source_with_an_address_and_each_source_is_used(page: str) -> None:
    text, found = sources(page)
    used = {one["number"] for one in REFERENCE.finditer(text)}
    listed = [one["number"] for one in SOURCE.finditer(found)]
    targets = {one["number"]: one["to"] for one in TARGET.finditer(found)}
    assert used == set(listed) == targets.keys()
    assert listed == sorted(set(listed), key=int)
    assert [to for to in targets.values() if not FIXED.search(to)] == []


def test_the_line_below_the_title_of_the_readme_names_the_version_and_what_it_needs() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    supported = re.search(r"It supports (.+) and (.+)\.", (ROOT / "CHANGELOG.md").read_text())
    assert supported is not None
    line = " | ".join(
        (f"{__version__}, not published yet", *supported.groups(), f"Python {project['requires-python'].strip('>=')}+")
    )
    assert (ROOT / "README.md").read_text().splitlines()[2] == f"{line} | {project['license']}"


@pytest.mark.parametrize("page", PAGES)
def test_no_page_installs_a_package_of_ours_from_a_registry_where_there_is_none(page: str) -> None:
    commands = re.findall(r"pipx? install .*", (ROOT / page).read_text())
    assert [one for one in commands if "kafka-features" in one and "--no-index" not in one] == []
