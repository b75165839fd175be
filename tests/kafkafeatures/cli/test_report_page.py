"""The HTML page of a report: every fact of the status is in it, as text, escaped, and readable in light and dark."""

from __future__ import annotations

import re
from html import unescape
from html.parser import HTMLParser

import pytest

from kafkafeatures.api.names import APPROVE
from kafkafeatures.api.reasons import PlanVerdict
from kafkafeatures.api.records import stamp
from kafkafeatures.cli.kube.seen_events import SeenEvent
from kafkafeatures.cli.pages.resource import page, plan_page
from kafkafeatures.core.engine.event_records import EventFacts
from tests.kafkafeatures import statuses
from tests.kafkafeatures.cli.restarts import LATER, RESTART, in_flight
from tests.kafkafeatures.statuses import resource
from tests.kafkafeatures.worlds import NOW

NOT_READ = "Run `report` with --bootstrap-server HOST:PORT."


class Page(HTMLParser):
    """Tags in their nesting, what is in them, and what is left open."""

    VOID = ("meta", "link", "br", "input")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.rows: list[list[str]] = []
        self.captions: list[tuple[int, str]] = []  # and how many rows stand before it
        self.text = ""
        self.feed(text)
        self.close()
        assert self.open == []

    def rows_under(self, caption: str) -> list[list[str]]:
        """The rows of the one table whose caption begins so."""
        begins = [first for first, _ in self.captions] + [len(self.rows)]
        ((first, last),) = (
            (begins[at], begins[at + 1]) for at, (_, words) in enumerate(self.captions) if words.startswith(caption)
        )
        return self.rows[first:last]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
        if tag == "caption":
            self.captions.append((len(self.rows), ""))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if {"style", "script"} & set(self.open):
            return
        self.text += data
        if "caption" in self.open:
            self.captions[-1] = self.captions[-1][0], self.captions[-1][1] + data
        if {"td", "th"} & set(self.open):
            self.rows[-1][-1] += data


def commands(page: str | None) -> list[str]:
    """The commands on a page, to be copied."""
    found = re.findall('<code class="command">(.*?)</code>', page or "")
    return [unescape(re.sub("</?span>", "", command)) for command in found]


KINDS = {
    "none": {},
    "in sync": statuses.in_sync(),
    "approval": statuses.waiting_for_approval(),
    "soaking": statuses.soaking(),
    "stalled": statuses.stalled(),
    "unreachable": statuses.unreachable(statuses.acting()),
    "rolling": {
        **in_flight(RESTART).as_json(),
        "rollout": {"id": "1", "total": 3, "done": 1, "waitingFor": "broker 3 is stopping"},
        "workloads": [{"name": "orders", "updateRevision": "orders-2", "updated": 1, "total": 3}],
    },
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_page_of_every_status_is_complete_and_loads_nothing(kind: str) -> None:
    made = Page(page(resource(KINDS[kind]), [], LATER, NOT_READ))
    assert {"script", "img", "iframe", "a"} & {tag for tag, _ in made.tags} == set()
    assert not [one for _, one in made.tags for name in ("src", "href") if (one.get(name) or "data:,") != "data:,"]
    assert [tag for tag, _ in made.tags].count("h1") == 1
    assert ("html", {"lang": "en"}) in made.tags


@pytest.mark.parametrize("kind", KINDS)
def test_every_table_of_the_report_page_has_a_caption_and_scoped_headers(kind: str) -> None:
    tags = Page(page(resource(KINDS[kind]), [], LATER, NOT_READ)).tags
    assert sum(tag == "table" for tag, _ in tags) == sum(tag == "caption" for tag, _ in tags)
    assert all(one.get("scope") in ("row", "col") for tag, one in tags if tag == "th")


@pytest.mark.parametrize("kind", ["approval", "soaking", "stalled"])
def test_messages_blockers_and_steps_of_a_status_are_on_the_page(kind: str) -> None:
    made, status = Page(page(resource(KINDS[kind]), [], LATER, NOT_READ)), KINDS[kind]
    texts = [one["message"] for one in status["conditions"]]
    texts += [one[name] for one in status.get("blockers", ()) for name in ("kind", "nodes", "feature", "remedy")]
    texts += [step["detail"] for step in status.get("plan", {}).get("steps", ())]
    texts += list(status.get("wayBack", {}).values())
    assert [one for one in texts if one not in made.text] == []


def verdict(text: str) -> tuple[str, str]:
    """(CSS class, words) of the verdict at the top."""
    ((style, words),) = re.findall(r'<h1>.*?</h1>\n<p class="box (\w+)-bar"><strong class="\w+">(.*?)</strong>', text)
    return style, words


STYLES = {"none": "wait", "in sync": "good", "approval": "wait", "soaking": "wait", "stalled": "bad"}


@pytest.mark.parametrize("kind", STYLES)
def test_the_verdict_is_red_only_if_something_has_to_be_mended(kind: str) -> None:
    assert verdict(page(resource(KINDS[kind]), [], LATER, NOT_READ))[0] == STYLES[kind]


def test_a_waiting_plan_has_its_approve_command_until_it_is_approved() -> None:
    waiting = statuses.waiting_for_approval()
    command = f"kafkafeatures approve orders -n kafka --plan {waiting['plan']['hash'][:19]}"
    assert command in commands(page(resource(waiting), [], LATER, NOT_READ))
    approved = resource(waiting, annotations={APPROVE: waiting["plan"]["hash"]})
    assert "kafkafeatures approve" not in page(approved, [], LATER, NOT_READ)
    assert waiting["plan"]["hash"] not in page(resource(waiting), [], LATER, NOT_READ)  # 64 digits are not read


def test_blockers_are_cards_in_words_with_their_remedies_open() -> None:
    text = page(resource(statuses.stalled()), [], LATER, NOT_READ)
    assert re.findall(r'<h3>(.*?)</h3>\n<p class="muted">(.*?)</p>', text) == [
        ("controller 3003, Kafka 3.9", "Ghost registration")
    ]
    assert "<summary>Remedy" not in text


@pytest.mark.parametrize(("done", "first"), [(1, "Roll"), (3, "Plan")])
def test_the_roll_is_above_the_plan_while_it_lasts(done: int, first: str) -> None:
    status = {**statuses.waiting_for_approval(), "rollout": {"total": 3, "done": done}}
    headings = re.findall("<h2>(Roll|Plan)</h2>", page(resource(status), [], LATER, NOT_READ))
    assert (headings[0], len(headings)) == (first, 2)


@pytest.mark.parametrize(("waiting_for", "line"), [("broker 2 is", "1 of 3 nodes are current;"), ("", "1 of 3 nodes")])
def test_the_line_of_a_roll_leaves_out_what_the_head_of_the_page_says(waiting_for: str, line: str) -> None:
    """The status cuts it; the condition Ready has all of it."""
    status = {**statuses.stalled(), "rollout": {"total": 3, "done": 1, "waitingFor": waiting_for}}
    shown = Page(page(resource(status), [], LATER, NOT_READ)).text
    assert line in shown
    ready = next(each["message"] for each in status["conditions"] if each["type"] == "Ready")
    status["rollout"] = {**status["rollout"], "waitingFor": ready[:30]}
    assert "1 of 3 nodes are current;" not in Page(page(resource(status), [], LATER, NOT_READ)).text


def test_the_page_of_a_plan_alone_has_its_verdict_steps_and_command() -> None:
    text = plan_page(resource(statuses.waiting_for_approval()), PlanVerdict.APPROVAL_REQUIRED, LATER)
    assert verdict(text) == ("wait", "Waiting for approval")
    made = Page(text)
    assert "kafkafeatures approve orders -n kafka --plan sha256:" in made.text
    assert "What happened" not in made.text
    assert [row[1] for row in made.rows_under("Steps")[1:]] == ["Pending", "Pending"]


def test_evidence_about_clients_is_on_the_page_with_senders_and_gaps() -> None:
    condition = {"type": "ClientsCompatible", "status": "False", "reason": "BlockingClients", "message": "Fetch v3"}
    clients = {
        "target": "4.2", "verdict": "blocked", "blockers": [{"api": "Fetch", "version": 3, "brokers": "1-3"}],
        "blockerCount": 3, "senders": [{"clientId": "billing", "versions": "Fetch v3", "remedy": "upgrade it"}],
        "gaps": [{"broker": 7, "cause": "NoScrape", "since": stamp(NOW)}],
    }  # fmt: skip
    status = {**statuses.in_sync(), "clients": clients}
    status["conditions"] = [*status["conditions"], condition]
    made = Page(page(resource(status), [], LATER, NOT_READ))
    assert "Kafka 4.2: BlockingClientsFetch v3" in made.text
    assert made.rows_under("Versions in use that Kafka 4.2 lacks; 2 more are not shown")[1][:2] == ["Fetch v3", "1-3"]
    assert made.rows_under("Who sends them")[1][0] == "billing"
    assert made.rows_under("Gaps")[1] == ["broker 7", "NoScrape", "2026-01-02 03:04:05 UTC", "now"]


def test_the_page_of_a_resource_that_was_not_reconciled_yet_has_no_plan_and_no_reason() -> None:
    made = Page(page(resource({}), [], LATER, NOT_READ))
    assert "Not reconciled yet" in made.text
    assert "Not reconciled yet:" not in made.text
    assert "No plan yet: the operator has not reconciled it." in made.text


def test_the_page_of_a_resource_in_sync_says_that_nothing_is_to_be_changed() -> None:
    assert "Nothing is to be changed." in Page(page(resource(statuses.in_sync()), [], LATER, NOT_READ)).text


def test_texts_of_a_status_are_escaped_on_the_report_page() -> None:
    evil = '<script>alert("1")</script>&'
    status = {
        **statuses.stalled(),
        "rollout": {"waitingFor": evil},
        "wayBack": {"how": evil, "until": evil},
        "history": [{"at": evil, "action": evil, "result": evil, "message": evil}],
        "features": [{"name": evil, "state": evil, "supportedMin": evil}],
        "blockers": [{"kind": evil, "message": evil, "remedy": evil}],
        "conditions": [{"type": evil, "status": evil, "reason": evil, "message": evil, "lastTransitionTime": evil}],
        "plan": {"hash": evil, "steps": [{"detail": evil, "state": evil}]},
        "intents": [{"kind": "RestartNode", "title": evil, "target": evil, "at": evil}, {"kind": evil, "at": evil}],
        "workloads": [{"name": evil, "updateRevision": evil}],
    }
    events = [
        SeenEvent(at=evil, reason=evil, note=evil),
        SeenEvent(at=stamp(NOW), reason="NodeRestarted", note=evil, facts=EventFacts(node=evil, pod=evil)),
    ]
    made = Page(page(resource(status), events, LATER, NOT_READ))
    assert "script" not in {tag for tag, _ in made.tags}
    assert made.text.count(evil) > 20


def test_the_page_says_if_events_could_not_be_read() -> None:
    assert "The Events could not be read." in Page(page(resource(statuses.in_sync()), None, LATER, NOT_READ)).text


# --- colours ---


def luminance(colour: str) -> float:
    digits = colour[1:] if len(colour) == 7 else "".join(2 * digit for digit in colour[1:])
    parts = [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_every_text_of_the_report_page_has_enough_contrast(theme: int) -> None:
    """4.5 to 1 is what WCAG asks of text, 3 to 1 of a bar."""
    text = page(resource(statuses.in_sync()), [], LATER, NOT_READ)
    found = re.findall(r":root \{(.*?)\}", text, re.DOTALL)[theme]
    colours = dict(re.findall(r"--([\w-]+): (#\w+)", found))
    for ground in (colours["page"], colours["box"]):
        assert all(contrast(colours[name], ground) >= 4.5 for name in ("text", "muted", "good", "bad", "wait"))
        assert contrast(colours["bar"], ground) >= 3
    fills = {name for name in colours if name.endswith("-fill")}
    assert len(fills) == 4
    assert all(contrast(colours["text"], colours[fill]) >= 4.5 for fill in fills)
    used = {name for rule in re.findall(r"background: (.*?)[;}]", text) for name in re.findall(r"--([\w-]+)", rule)}
    assert used <= {"page", "box", "good", "bad", "wait", "bar", *fills}
