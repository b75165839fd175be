"""The chart as `helm package` makes it: no link in the package leads nowhere."""

from __future__ import annotations

import re
import tarfile

import pytest
import yaml

from tests.e2e.kubernetes.chart.rendering import CHART, NAME, ROOT, helm

LINK = re.compile(r"\]\(([^)\s]+)\)|\b(?:href|src)=[\"']([^\"']+)[\"']|^\[[^\]]+\]: *(\S+)", re.MULTILINE)
"""Links of Markdown: within a line, as HTML, by reference."""
PAGE = re.compile(r"\bdocs/[\w./-]+\.\w+")
URL = re.compile(r"https?://[\w.-]+")
OF_STANDARDS = {"http://json-schema.org", "https://kubernetes.default.svc", "https://prometheus.monitoring"}
"""All that the package names by URL: the language of the schema, the API server as pods reach it, and an example of a
Service in a cluster.
"""


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The text of each file in the package, by path."""
    folder = tmp_path_factory.mktemp("packaged")
    done = helm("package", str(CHART), "--destination", str(folder))
    assert done.returncode == 0, done.stderr
    (made,) = folder.glob(f"{NAME}-*.tgz")
    with tarfile.open(made) as archive:
        archive.extractall(folder / "out", filter="data")
    inside = folder / "out" / NAME
    return {str(one.relative_to(inside)): one.read_text() for one in sorted(inside.rglob("*")) if one.is_file()}


def _links(text: str) -> list[str]:
    return ["".join(found) for found in LINK.findall(text)]


def test_the_packaged_chart_holds_the_files_of_its_folder(package: dict[str, str]) -> None:
    files = {str(one.relative_to(CHART)) for one in CHART.rglob("*") if one.is_file()}
    assert set(package) - {".helmignore"} == files - {".helmignore"}  # helm may leave it out


def test_each_link_of_the_readme_leads_to_an_address_a_file_of_the_package_or_a_heading(
    package: dict[str, str],
) -> None:
    readme = package["README.md"]
    headings = {
        re.sub(r"[^\w -]", "", one).strip().lower().replace(" ", "-")
        for one in re.findall(r"^#+ (.+)$", readme, re.MULTILINE)
    }
    known = set(package) | {f"#{one}" for one in headings}
    assert [one for one in _links(readme) if not one.startswith(("https://", "http://")) and one not in known] == []


def test_the_notes_and_the_annotations_of_the_chart_have_no_links(package: dict[str, str]) -> None:
    chart = yaml.safe_load(package["Chart.yaml"])
    texts = [package["templates/NOTES.txt"], *(str(one) for one in chart["annotations"].values())]
    assert [link for text in texts for link in _links(text)] == []


def test_the_package_names_only_internet_addresses_of_standards(package: dict[str, str]) -> None:
    """There is no public home yet: an icon, sources or a home page would be an invention."""
    assert {url for text in package.values() for url in URL.findall(text)} <= OF_STANDARDS
    assert not {"home", "sources", "icon"} & set(yaml.safe_load(package["Chart.yaml"]))


def test_each_page_that_the_package_names_is_in_the_repository(package: dict[str, str]) -> None:
    named = {(path, page) for path, text in package.items() for page in PAGE.findall(text)}
    assert ("README.md", "docs/how-to/install.md") in named
    assert [(path, page) for path, page in sorted(named) if not (ROOT / page).is_file()] == []


@pytest.mark.parametrize("link", ["[a](../../docs/a.md)", "<img src='b.png'>", "[c]: ../d.md"])
def test_the_search_for_links_finds_each_form_of_a_link(link: str) -> None:
    assert len(_links(link)) == 1
