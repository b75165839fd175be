"""The page of `describe -o html`: the verdict, filled cells, and a card with a command for each blocker."""

from __future__ import annotations

import re

from kafkafeatures import __version__
from kafkafeatures.cli.cluster.blocker_cards import blocker_cards, kind_in_words
from kafkafeatures.cli.cluster.page import cluster_page
from kafkafeatures.core.facts.observation import NodeState
from tests.kafkafeatures.cli.test_picture import EVIL, NODES
from tests.kafkafeatures.cli.test_report_page import Page, commands
from tests.kafkafeatures.worlds import OLD, SILENT, answer, node, observation

BLOCKED = observation(*NODES)
FLAGS = "--bootstrap-server kafka-1.example:9092"
FEATURES = "Every feature on every node"


def bar(page: str) -> tuple[str, str]:
    """(style of the verdict bar, its first line)."""
    ((style, words),) = re.findall(r'<p class="box (\w+)-bar"><strong class="\w+">(.*?)</strong>', page)
    return style, words.replace("&gt;", ">")


def cells(page: str, feature: str) -> list[tuple[str, str]]:
    """(CSS class, text) of each cell in the row of a feature."""
    (row,) = re.findall(rf'<tr><th scope="row">{re.escape(feature)}</th>(.*?)</tr>', page)
    return re.findall(r'<span class="filled (\w*)">([^<]*)', row)


def test_the_page_of_a_blocked_cluster_begins_with_a_red_verdict_and_its_source() -> None:
    page = cluster_page(BLOCKED, FLAGS)
    assert bar(page) == (
        "bad",
        "metadata.version 3.9-IV0 -> 4.1-IV1: blocked by broker 2 (Kafka 3.9) and broker 4 (a ghost)",
    )
    text = Page(page).text
    assert "read at 2026-01-02 03:04:05 UTC from metadata log at offset 100, epoch 4; active controller 3001" in text
    assert f"KafkaFeatures {__version__}" in text
    assert "<title>Kafka cluster cluster-1 - KafkaFeatures</title>" in page


def test_each_cell_is_filled_by_what_the_node_does_to_the_highest_level() -> None:
    page = cluster_page(BLOCKED, FLAGS)
    head, *_ = Page(page).rows_under(FEATURES)
    assert head == ["Feature", "Finalized", "controller 3001", "broker 1", "broker 2"]
    assert cells(page, "metadata.version") == [("good", "7-27"), ("good", "7-27"), ("bad", "1-21 !")]
    assert cells(page, "group.version")[2] == ("bad", "- !")
    assert cells(page, "Kafka (inferred from the ranges)")[2] == ("", "3.9")


def test_a_range_that_is_not_known_is_no_reached_level() -> None:
    page = cluster_page(observation(node(3001), node(1), node(2, said=SILENT, written=None)))
    assert cells(page, "metadata.version")[2] == ("wait", "?")


def test_each_blocker_is_a_card_in_words_with_its_command_to_copy() -> None:
    page = cluster_page(BLOCKED, FLAGS)
    assert re.findall(r'<h3>(.*?)</h3>\n<p class="muted">(.*?)</p>', page) == [
        ("broker 2, Kafka 3.9", "Kafka too old"),
        ("broker 4, Kafka 3.9", "Ghost registration"),
    ]
    assert commands(page) == [f"kafkafeatures unregister --broker 4 {FLAGS}"]
    assert "NodeRange" not in page


def test_the_page_of_a_cluster_that_can_be_raised_is_green_without_cards() -> None:
    page = cluster_page(observation(node(3001), node(1)))
    assert bar(page) == ("good", "metadata.version 3.9-IV0; can be raised to 4.1-IV1")
    assert "card" not in page.split("</style>")[1]
    assert "1 other feature can be raised: group.version 0 -> 1" in Page(page).text


def test_nodes_apart_are_listed_with_what_is_known_of_them() -> None:
    ((state, words, remedy),) = Page(cluster_page(BLOCKED, FLAGS)).rows_under("Not live")[1:]
    assert (state, remedy) == ("Ghost", "-")  # its remedy is on its card
    assert words.startswith("broker 4 h:4: fenced, and does not answer: stopped or removed, registered by Kafka 3.9")


def test_names_from_a_cluster_are_escaped() -> None:
    hostile = observation(node(3001), node(1, said=answer({**OLD, EVIL: (0, 1)})))
    page = cluster_page(hostile, f"--config {EVIL}")
    assert "<script" not in page
    assert "\u202e" not in page
    Page(page)


def test_a_blocker_of_a_node_that_is_too_new_says_so() -> None:
    assert kind_in_words("NodeRange", is_too_new=True) == "Kafka too new"
    assert kind_in_words("GhostRegistration") == "Ghost registration"
    assert kind_in_words("Quorum") == "Quorum"


def test_there_is_no_list_of_cards_without_blockers() -> None:
    assert blocker_cards(()) == ""


def test_a_cluster_without_a_live_node_has_no_table() -> None:
    page = cluster_page(observation(node(3001, state=NodeState.UNREACHABLE, said=SILENT)))
    assert "No live node." in page
