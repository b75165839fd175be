"""The rights in Kafka that pages name are those of the one list (`kafka/base/needs.py`)."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkafeatures.cli.document.rights_flags import MODES
from kafkafeatures.kafka.base.needs import NEEDS, KafkaResource, Need, Purpose
from kafkafeatures.kafka.base.rights import ClusterRight

HOW_TO = Path(__file__).resolve().parents[2] / "docs" / "how-to"
WORDS = {Purpose.RESTARTS: "drivers"}


def page(name: str) -> str:
    return (HOW_TO / name).read_text()


def row(need: Need) -> str:
    purposes = [WORDS.get(each, each.value) for each in Purpose if each in need.purposes]
    modes = "all" if len(purposes) == len(Purpose) else ", ".join(purposes)
    return f"| {need.goal} | {need.requests} | {modes} | {need.right.name} on {need.resource.value} |"


def test_the_table_of_rights_on_the_page_is_the_list_of_the_code() -> None:
    text = page("connect.md")
    begin = text.index("| read the supported ranges of live nodes |")
    rows = text[begin:].split("\n\n")[0].splitlines()[1:]
    assert rows == [row(need) for need in NEEDS]


def rights_of(purpose: Purpose, resource: KafkaResource) -> set[ClusterRight]:
    return {need.right for need in NEEDS if purpose in need.purposes and need.resource is resource}


@pytest.mark.parametrize(
    ("name", "purpose"), [("migrate-to-kraft.md", Purpose.MIGRATE), ("raise-the-ibp.md", Purpose.IBP)]
)
def test_a_page_names_the_rights_of_its_mode(name: str, purpose: Purpose) -> None:
    line = "The Kafka user needs "
    (sentence,) = (each.split(";")[0].split(". ")[0] for each in page(name).splitlines() if each.startswith(line))
    of_cluster, of_topics = sentence.split(" on the cluster, and ")
    for part, resource in ((of_cluster, KafkaResource.CLUSTER), (of_topics, KafkaResource.TOPICS)):
        named = set(part.removeprefix(line).replace(",", " ").split()) & set(ClusterRight.__members__)
        assert named == {right.name for right in rights_of(purpose, resource)}


@pytest.mark.parametrize("name", ["with-strimzi.md", "with-confluent.md", "beside-a-secured-cluster.md"])
def test_a_user_that_a_page_creates_gets_the_rights_to_raise_levels_and_restart_nodes(name: str) -> None:
    wanted = rights_of(Purpose.LEVELS, KafkaResource.CLUSTER) | rights_of(Purpose.RESTARTS, KafkaResource.CLUSTER)
    lines = [line for line in page(name).splitlines() if "ClusterAction" in line]
    assert lines
    for line in lines:
        assert all(right in line for right in wanted)


def test_each_mode_of_the_flag_is_a_purpose() -> None:
    assert {Purpose(mode) for mode in MODES} == set(Purpose) - {Purpose.RESTARTS}


def test_a_purpose_that_works_without_the_log_names_every_right_that_it_needs_instead() -> None:
    """Instead of the log, it reads the topics and their configurations."""
    without = {purpose for need in NEEDS if need.without_log for purpose in need.purposes}
    for purpose in without:
        assert rights_of(purpose, KafkaResource.TOPICS) == {ClusterRight.DESCRIBE, ClusterRight.DESCRIBE_CONFIGS}
