"""The pages of a fleet and of its clusters: whole documents that say what the tables say, as text, never as markup."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import cache
from typing import Any

import pytest

from featurelog.gate import Target
from kafkafeatures.cli.pages import fleet as pages
from kafkafeatures.cli.pages.cluster import cluster_page
from kafkafeatures.cli.pages.cluster_tables import ClusterTables
from kafkafeatures.cli.pages.fleet import fleet_page, headline
from kafkafeatures.cli.pages.lanes import FLAPS
from kafkafeatures.cli.pages.sortable import SCRIPT
from kafkafeatures.core.facts.releases import releases
from kafkasim.fleet.plan import Story
from tests.featurelog.fleet import fleet, gate
from tests.kafkafeatures.cli.test_report_page import Page
from tests.kafkasim.fleets import histories, history_with

TARGET = Target("release", "4.2")
RELEASES = releases()[releases().index("3.9") :]
STORIES = [Story.GHOST_CONTROLLER, Story.CHANGED_BY_HAND, Story.STUCK_MIGRATION, Story.FLAPPING, Story.NEW_GHOST_BROKER]


@cache
def document_and_clusters() -> tuple[dict[str, Any], tuple[tuple[str, ClusterTables], ...]]:
    """The document of the gate, and each cluster with the name of its page."""
    document = gate(TARGET).as_json()
    rows = {name.cluster: tables for name, tables in fleet().items()}
    verdicts = {
        release: {one.name.cluster: one.verdict.value for one in gate(Target("release", release)).clusters}
        for release in RELEASES
    }
    reach = {name: {release: each[name] for release, each in verdicts.items()} for name in rows}
    found = [
        (f"{name}.html", ClusterTables(one, rows[name], reach[name]))
        for one in document["clusters"]
        for name in [one["cluster"]]
    ]
    return document, tuple(found)


@cache
def page_of_fleet() -> Page:
    return Page(fleet_page(*document_and_clusters()))


def cluster_with(story: Story) -> ClusterTables:
    name = history_with(story).plan.name
    return next(one for _, one in document_and_clusters()[1] if one.gate["cluster"] == name)


def page_of(story: Story) -> Page:
    return Page(cluster_page(document_and_clusters()[0], cluster_with(story), "fleet.html"))


@pytest.mark.parametrize("story", [None, *STORIES])
def test_a_page_loads_nothing_from_other_addresses(story: Story | None) -> None:
    made = page_of_fleet() if story is None else page_of(story)
    assert {"img", "iframe"} & {tag for tag, _ in made.tags} == set()
    assert [one for tag, one in made.tags if tag == "script"] == ([{}] if story is None else [])  # of its own
    assert not [one for tag, one in made.tags if tag != "a" and (one.get("href") or "data:,") != "data:,"]
    assert [tag for tag, _ in made.tags].count("h1") == 1
    assert ("html", {"lang": "en"}) in made.tags


@pytest.mark.parametrize("story", [None, *STORIES])
def test_every_table_of_the_pages_has_a_caption_and_scoped_headers(story: Story | None) -> None:
    tags = (page_of_fleet() if story is None else page_of(story)).tags
    assert sum(tag == "table" for tag, _ in tags) == sum(tag == "caption" for tag, _ in tags) > 0
    assert all(one.get("scope") in ("row", "col") for tag, one in tags if tag == "th")


def test_the_fleet_page_lists_each_cluster_with_its_verdict_blocked_clusters_first() -> None:
    document, clusters = document_and_clusters()
    rows = page_of_fleet().rows_under("The blocked ones first")[1:]
    assert {(row[0], row[1].lower()) for row in rows} == {
        (one.gate["cluster"], one.gate["verdict"]) for _, one in clusters
    }
    order = [row[1] for row in rows]
    assert order == sorted(order, key=["Blocked", "Unknown", "Ready"].index)
    assert f"{document['counts']['blocked']}blocked" in page_of_fleet().text


def test_each_cluster_of_the_fleet_page_links_to_its_own_page_only() -> None:
    links = {one["href"] for tag, one in page_of_fleet().tags if tag == "a"}
    assert links == {link for link, _ in document_and_clusters()[1]}


def test_the_fleet_page_lists_ghosts_drift_and_migrations() -> None:
    ghosts = page_of_fleet().rows_under("Registered, though")[1:]
    assert {(row[0], row[1]) for row in ghosts} == {
        (plan.name, f"{'controller' if plan.story is Story.GHOST_CONTROLLER else 'broker'} {plan.ghost}")
        for plan in (history.plan for history in histories().values())
        if plan.ghost is not None
    }
    assert all(".log, offset" in row[3] or ".checkpoint, offset" in row[3] for row in ghosts)
    (drifted,) = page_of_fleet().rows_under("Levels that are not")[1:]
    assert drifted[:3] == [history_with(Story.CHANGED_BY_HAND).plan.name, "share.version", "0, desired is 1"]
    (migrating,) = page_of_fleet().rows_under("In progress")[1:]
    plan = history_with(Story.STUCK_MIGRATION).plan
    assert (migrating[0], migrating[3]) == (plan.name, str(plan.brokers[-1]))
    assert migrating[1] == "changes are written to both"


def test_the_page_of_a_cluster_lists_its_blockers_with_their_last_registration() -> None:
    one = cluster_with(Story.GHOST_CONTROLLER)
    text = cluster_page(document_and_clusters()[0], one, "fleet.html")
    ghost = history_with(Story.GHOST_CONTROLLER).plan.ghost
    assert sorted(re.findall(r'<h3>(.*?)</h3>\n<p class="muted">(.*?)</p>', text)) == [
        ("brokers 1-3, Kafka 4.1", "Kafka too old"),
        (f"controller {ghost}, Kafka 4.0", "Kafka too old, may be a ghost registration"),
        ("controllers 101-103, Kafka 4.1", "Kafka too old"),
    ]
    shown = Page(text).text
    assert "<details><summary>Evidence" in text  # folded, and the remedy is not
    assert "NodeRange" not in text
    for node in one.gate["blockers"]["nodes"]:
        assert f"{node['node']}/{node['file']}, offset {node['offset']}" in shown
        assert f"{node['role']} {node['nodeId']}: " in shown
    assert "upgrade Kafka on brokers 1-3 to 4.2 or newer" in shown
    assert f"if controller {ghost} is permanently gone" in shown


def test_the_page_of_a_cluster_links_to_the_fleet_page_and_has_levels_before_and_after_a_release() -> None:
    made, one = page_of(Story.GHOST_CONTROLLER), cluster_with(Story.GHOST_CONTROLLER)
    assert [tag["href"] for kind, tag in made.tags if kind == "a"] == ["fleet.html"]
    rows = made.rows_under("What release 4.2 would change")
    assert rows[0] == ["Feature", "Finalized", "Afterwards"]
    assert ["metadata.version", "25 (4.0-IV3)", "29 (4.2-IV1)"] in rows
    assert len(rows) == 1 + len(one.gate["changes"])


def test_the_fleet_page_shows_level_reachable_level_and_nodes_behind_of_each_cluster() -> None:
    rows = {row[0]: row[2:] for row in page_of_fleet().rows_under("The blocked ones first")[1:]}
    plan = history_with(Story.GHOST_CONTROLLER).plan
    assert rows[plan.name][:3] == ["4.0-IV3", "4.0", "6 of 6 and 1 ghost"]
    assert "brokers 1-3: Kafka 4.1" in rows[plan.name][3]
    assert "Not supported by 6 of 6 nodes and 1 ghost" in page_of(Story.GHOST_CONTROLLER).text
    ready = next(one for _, one in document_and_clusters()[1] if one.gate["verdict"] == "ready")
    assert rows[ready.gate["cluster"]][:4] == ["4.2-IV1", "4.2", f"0 of {len(ready.nodes)}", "drift: share.version"]


def test_an_unknown_cluster_reaches_no_release_on_the_fleet_page() -> None:
    unknown = gate(TARGET, at_ms=0).as_json()
    made = Page(fleet_page(unknown, [("x.html", ClusterTables(unknown["clusters"][0]))]))
    (row,) = made.rows_under("The blocked ones first")[1:]
    assert row[1:4] == ["Unknown", "not known", "not known"]


def test_a_flapping_node_is_named_on_the_fleet_page() -> None:
    plan = history_with(Story.FLAPPING).plan
    ((cluster, node, times, *_),) = page_of_fleet().rows_under("A node is flapping if")[1:]
    assert cluster == plan.name
    assert int(times) >= FLAPS
    (row,) = (row for row in page_of_fleet().rows_under("The blocked ones first") if row[0] == plan.name)
    assert row[5].endswith(f"{node} is flapping")


def test_the_page_of_a_cluster_has_levels_registrations_and_coverage() -> None:
    one, made = cluster_with(Story.CHANGED_BY_HAND), page_of(Story.CHANGED_BY_HAND)
    timeline = made.rows_under("Finalized levels")[1:]
    assert len(timeline) == len(one.rows("feature_timeline"))
    assert ["share.version", "1", "0", "removed"] in [row[:4] for row in timeline]
    assert all(row["evidence_file"] in shown[4] for row, shown in zip(ordered(one), timeline, strict=True))
    registered = made.rows_under("At the end of what was read")[1:]
    assert [row[0] for row in registered] == ["brokers 1-5", "controllers 101-103"]
    assert [row[4].split(" ")[0] for row in registered] == ["5", "3"]  # such as `5 registrations`
    places = [f"{row['registered_file']}, offset {row['registered_offset']}" for row in one.current]
    assert all(place in made.text for place in places)
    assert f"offset {one.gate['watermark']['offset']}" in made.text
    assert "Copies read: 101, 102, 103" in made.text


def test_the_page_of_a_cluster_lists_the_releases_it_can_be_upgraded_to() -> None:
    rows = page_of(Story.GHOST_CONTROLLER).rows_under("Every release of Kafka")[1:]
    plan = history_with(Story.GHOST_CONTROLLER).plan
    assert [row[0] for row in rows] == [one for one in RELEASES if float(one) >= float(plan.before.name)]
    assert next(row[1] for row in rows if row[0] == plan.after.name) == "Blocked"


def ordered(cluster: ClusterTables) -> list[Any]:
    return sorted(cluster.rows("feature_timeline"), key=lambda row: (row["feature"], row["from_offset"] or 0))


def test_ghosts_and_drift_that_block_nothing_are_remarks() -> None:
    document, _ = document_and_clusters()
    remarks = []
    for story in (Story.NEW_GHOST_BROKER, Story.CHANGED_BY_HAND):
        one = cluster_with(story)
        free = {**one.gate, "verdict": "ready", "blockers": {"nodes": [], "losses": [], "others": []}}
        made = Page(fleet_page(document, [("x.html", ClusterTables(free, one.tables))]))
        remarks.append(made.rows_under("The blocked ones first")[1][5])
    assert remarks == ["1 ghost registration", "drift: share.version"]


@pytest.mark.parametrize("story", [None, *STORIES])
def test_pages_show_words_instead_of_raw_table_values(story: Story | None) -> None:
    made = page_of_fleet() if story is None else page_of(story)
    cells = {cell for row in made.rows for cell in row}
    raw = {"seen", "Unattributed", "in_sync", "controlled", "away", "ready", "blocked", "MIGRATION"}
    assert not cells & raw


def test_unknown_verdicts_are_shown_with_their_reason() -> None:
    document = gate(TARGET, {}, at_ms=0).as_json()
    unknown = gate(TARGET, {name: {"upgrade_readiness": []} for name in fleet()}).as_json()
    assert "No cluster was read, so nothing is known for release 4.2" in Page(fleet_page(document, ())).text
    made = Page(cluster_page(unknown, ClusterTables(unknown["clusters"][0])))
    assert "the tables say nothing of this target" in made.text


EVIL = '<script>alert("1")</script>\u202e&'


def spoiled(value: Any) -> Any:
    """The value with hostile text in place of every text."""
    if isinstance(value, dict):
        return {name: spoiled(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [spoiled(each) for each in value]
    return EVIL if isinstance(value, str) else value


def test_names_in_a_log_are_escaped_on_the_pages() -> None:
    document, clusters = document_and_clusters()
    kept = {"verdict", "validUntil", "evaluatedAt"}
    for story in STORIES:
        one = cluster_with(story)
        gate_part = {name: each if name in kept else spoiled(each) for name, each in one.gate.items()}
        rows = {name: spoiled(each) for name, each in one.tables.items()}
        harmful = ClusterTables({**gate_part, "watermark": one.gate["watermark"]}, rows)
        for text in (cluster_page(document, harmful), fleet_page(document, [("x.html", harmful)])):
            assert text.replace(f"<script>{SCRIPT}</script>", "").count("<script") == 0
            assert "\u202e" not in text
            Page(text)
    assert clusters


def test_long_tables_of_the_fleet_page_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "MAX_ROWS", 3)
    made = Page(fleet_page(*document_and_clusters()))
    assert len(made.rows_under("The blocked ones first")) == 1 + 3
    assert "9 more are not shown" in made.text  # of 12 clusters in the simulated fleet


COUNTS = [
    ((0, 10, 0), "10 of 10 clusters are blocked for release 4.2"),
    ((2, 10, 0), "10 of 12 clusters are blocked for release 4.2"),
    ((2, 1, 3), "1 of 6 clusters is blocked and 3 of 6 clusters are unknown for release 4.2"),
    ((12, 0, 0), "12 of 12 clusters are ready for release 4.2"),
    ((1, 0, 0), "1 of 1 cluster is ready for release 4.2"),
]


@pytest.mark.parametrize(("counts", "words"), COUNTS)
def test_the_headline_of_a_fleet_counts_the_clusters_that_are_not_ready(
    counts: tuple[int, int, int], words: str
) -> None:
    assert headline(dict(zip(("ready", "blocked", "unknown"), counts, strict=True)), "release 4.2") == words


def test_the_grid_has_the_verdict_of_each_cluster_for_each_release() -> None:
    head, *rows = page_of_fleet().rows_under("Which cluster can be raised")
    assert head == ["Cluster", *RELEASES]
    by_cluster = {row[0]: dict(zip(RELEASES, row[1:], strict=True)) for row in rows}
    assert len(by_cluster) == 12  # all of the small fleet
    for _, one in document_and_clusters()[1]:
        grid = by_cluster[one.gate["cluster"]]
        shown = {release: verdict.lower() for release, verdict in grid.items() if verdict != "-"}
        assert shown == {release: one.releases[release] for release in shown}
        assert grid["4.2"].lower() == one.gate["verdict"]
    assert "-" in {verdict for grid in by_cluster.values() for verdict in grid.values()}


def test_a_cluster_that_was_not_judged_is_unknown_in_the_grid_and_not_below() -> None:
    document, clusters = document_and_clusters()
    link, other = clusters[0]
    blank = ClusterTables({**other.gate, "cluster": "blank"})
    made = Page(fleet_page(document, [(link, other), ("blank.html", blank)]))
    *_, row = made.rows_under("Which cluster can be raised")
    assert (row[0], set(row[1:])) == ("blank", {"Unknown"})


def test_the_blockers_of_a_fleet_are_named_in_words() -> None:
    causes = [row[0] for row in page_of_fleet().rows_under("Why clusters are blocked")[1:]]
    assert "Kafka too old" in causes
    assert not [cause for cause in causes if re.search("[a-z][A-Z]", cause)]


def test_a_roll_of_several_nodes_has_a_time_axis_of_its_own() -> None:
    begin = datetime(2026, 10, 30, 12, tzinfo=UTC)
    times = dict.fromkeys(("stopping_ts", "fenced_ts", "registered_ts", "unfenced_ts"), begin)
    row = {
        "roll_id": 7, "step": 1, "role": "broker", "node_id": 4, "kind": "controlled", "outcome": "in_sync", **times,
        "in_sync_ts": begin.replace(minute=2), "duration_ms": 120_000,
    }  # fmt: skip
    away = {**row, "step": 2, "node_id": 5, "outcome": "away", "duration_ms": None, "in_sync_ts": None}
    document, clusters = document_and_clusters()
    nothing = dict.fromkeys(("stopping_ts", "fenced_ts", "unfenced_ts", "in_sync_ts", "duration_ms"))
    once = {**row, **nothing, "step": 3, "role": "controller", "node_id": 101, "kind": "registered"}
    made = Page(cluster_page(document, ClusterTables(clusters[0][1].gate, {"rolls": [row, away, once]})))
    rows = made.rows_under("Roll of 3 nodes, 2026-10-30 12:00:00 UTC to 2026-10-30 12:02:00 UTC")[1:]
    assert rows.pop()[0] == "controller 1011 time"
    classes = [one.get("class") for _, one in made.tags]
    assert classes.count("moment") == 3  # on two lanes, and in the key
    assert [one[2:4] for one in made.rows_under("Each time")[1:3]] == [
        ["controlled shutdown", "in sync"], ["controlled shutdown", "still away"],
    ]  # fmt: skip
    assert [(one[0], one[3]) for one in rows] == [("broker 41 time", "2 min"), ("broker 51 time", "not known")]


def test_rolls_far_apart_are_drawn_apart_and_older_ones_are_folded() -> None:
    def roll(number: int) -> list[dict[str, Any]]:
        begin = datetime(2026, 10, number, 12, tzinfo=UTC)
        times = {"stopping_ts": begin, "in_sync_ts": begin.replace(minute=1)} | dict.fromkeys(
            ("fenced_ts", "registered_ts", "unfenced_ts")
        )
        facts = {"kind": "controlled", "outcome": "in_sync", "role": "broker", "duration_ms": 60_000}
        return [{"roll_id": number, "step": node, "node_id": node, **facts, **times} for node in (1, 2)]

    document, clusters = document_and_clusters()
    rolls = {"rolls": [row for number in (1, 2, 3, 4) for row in roll(number)]}
    text = cluster_page(document, ClusterTables(clusters[0][1].gate, rolls))
    captions = [words for _, words in Page(text).captions if words.startswith("Roll of")]
    assert [words[17:27] for words in captions] == ["2026-10-04", "2026-10-03", "2026-10-02", "2026-10-01"]
    assert re.findall("<summary>(Roll of [^<]*)", text) == [captions[-1]]
