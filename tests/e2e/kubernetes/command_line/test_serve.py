"""`serve` as a process against a real API server, and its pages in a real browser that reloads what changed."""

from __future__ import annotations

import re
import signal
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from threading import Thread

import pytest

from kafkafeatures.cli.serve.frame import live_page
from kafkafeatures.cli.serve.live import LatestReading, Reader
from kafkafeatures.cli.serve.resources import ResourcePages
from kafkafeatures.cli.serve.server import PageServer
from kafkafeatures.cli.shell.html_parts import Html, folded, text
from tests.e2e.kubernetes.command_line.orders import NS, USER, Orders
from tests.e2e.kubernetes.command_line.person import Person
from tests.e2e.rig.browser import opened, shown
from tests.kafkafeatures import statuses
from tests.kafkafeatures.cli.test_serve import Kube
from tests.kafkafeatures.statuses import resource
from tests.kafkafeatures.worlds import NOW
from tests.kafkasim.test_process import heard, simulator

TABS = 10


def page_at(url: str) -> str:
    with urllib.request.urlopen(url, timeout=30) as answer:
        body: bytes = answer.read()
    return body.decode()


def test_ten_tabs_cost_the_api_server_one_list_and_nothing_is_written(
    orders: Orders, person: Person, tmp_path: Path
) -> None:
    orders.write(statuses.waiting_for_approval())
    mark = orders.plane.audit.mark()
    with person.running("serve") as serving:
        serving.until_it_says("Ctrl-C ends it")
        url = serving.out.strip()
        with ThreadPoolExecutor(TABS) as tabs:
            assert all(f"{NS}/orders" in page for page in tabs.map(page_at, [url] * TABS))
        seen = opened(f"{url}{NS}/orders", tmp_path / "profile")
        assert seen.console == ()
        assert f"kafkafeatures approve orders -n {NS} --plan sha256:" in re.sub("<[^>]+>", "", seen.document)
        serving.process.send_signal(signal.SIGINT)
        assert serving.ends() == 0
        assert serving.err == "read-only; whoever has this address can read the pages; Ctrl-C ends it\n"
    rows = orders.plane.audit.wait_for(lambda rows: {row.resource for row in rows} >= {"events"}, mark, user=USER)
    assert {row.verb for row in rows} == {"list"}
    lists = [row for row in rows if row.resource == "kafkafeatures"]
    assert 1 <= len(lists) <= 3  # the first reading, and one for the browser, which starts seconds later
    assert list(person.temporary.iterdir()) == []


def test_one_resource_is_served_with_the_nodes_of_its_cluster(orders: Orders, person: Person) -> None:
    orders.write({**statuses.in_sync(), "clusterId": ""})
    with simulator("--old-broker", "3=4.0") as process:
        servers = str(heard(process)["bootstrapServers"])
        with person.running("serve", "orders", "--bootstrap-server", servers) as serving:
            serving.until_it_says("Ctrl-C ends it")
            assert serving.out.endswith(f"/{NS}/orders\n")
            page = page_at(serving.out.strip())
            serving.process.terminate()
            assert serving.ends() == 0
    assert f"<h1>{NS}/orders</h1>" in page
    assert 'class="filled bad">7-25 !' in page  # broker 3
    assert list(person.temporary.iterdir()) == []


@pytest.mark.parametrize("width", [375, 800, 1280])
@pytest.mark.parametrize("is_dark", [False, True], ids=["light", "dark"])
def test_every_text_of_the_live_pages_can_be_read(tmp_path: Path, width: int, is_dark: bool) -> None:
    """`texts`: each text with its contrast; WCAG asks for 4.5 to 1. `cut`: what the edge of the screen hides."""
    kube = Kube()
    kube.resources = [resource(statuses.stalled()), resource(statuses.waiting_for_approval(), name="billing")]
    reader = Reader(kube.environment)
    pages = ResourcePages(kube, kube.read, reader)  # type: ignore[arg-type]
    pages.start()
    for path in ("", "kafka/orders", "kafka/billing"):
        page = tmp_path / "page.html"
        page.write_text(pages(path) or "")
        seen = shown(page, tmp_path / "profile", width=width, is_dark=is_dark)
        assert seen.is_dark is is_dark
        assert len(seen.texts) > 20
        assert [one for one in seen.texts if one[1] < 4.5] == []
        assert seen.cut == ()
    reader.close()


@pytest.fixture
def changing() -> Iterator[PageServer]:
    """A page of which one part differs each time, and the other never."""
    numbers = count(1)

    def site(path: str) -> str:
        number = next(numbers)
        sections = (Html("<p>Reading {}.</p>").format(number), folded("Same", text("as before"), is_open=True))
        return live_page("changing", LatestReading(number, NOW), sections, Html(), current_time=NOW)

    with PageServer(site, 0) as server:
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_a_browser_reloads_what_changed_every_five_seconds(changing: PageServer, tmp_path: Path) -> None:
    seen = opened(changing.url, tmp_path / "profile", seconds=12)
    assert seen.console == ()
    assert "<p>Reading 3.</p>" in seen.document
    assert "Reading 1." not in seen.document
    assert 'id="away" hidden=""' in seen.document


def test_a_page_says_that_its_server_has_ended(changing: PageServer, tmp_path: Path) -> None:
    changing.site = lambda path: None if next(numbers) else page  # the first answer is a page, the others are 404
    numbers, page = count(), live_page("once", LatestReading(1, NOW), [text("here")], Html(), current_time=NOW)
    seen = opened(changing.url, tmp_path / "profile", seconds=7)
    assert "Not updated since" in seen.document
    assert "404: no such page. This is the last picture." in " ".join(seen.document.split())
    assert 'id="away" hidden=""' not in seen.document
