"""The status shows which metadata.version Strimzi sets, and why it could not: Strimzi's own status leaves that out."""

from __future__ import annotations

import pytest

from tests.kafkafeatures.reconcile.test_strimzi import ADDRESS, Scene


@pytest.mark.parametrize(
    ("kafka", "level"),
    [
        ({"version": "4.2.0"}, 29),
        ({"version": "4.2.0", "metadataVersion": "4.1-IV1"}, 27),
        ({"version": "4.2.0", "metadataVersion": "4.0"}, 25),
        ({"version": "9.9.0"}, None),
        ({}, None),
    ],
    ids=["of the version", "by its name", "of a release", "unknown", "none"],
)
async def test_the_level_that_strimzi_sets_is_shown(kafka: dict[str, str], level: int | None) -> None:
    scene = Scene()
    scene.shows(ADDRESS, **kafka)
    feature = await scene.metadata_version()
    assert (feature["managedBy"], feature.get("managedLevel")) == ("Strimzi (Kafka my-cluster)", level)
    assert "managedProblem" not in feature


async def test_a_level_that_requires_another_metadata_version_says_where_strimzi_reads_that() -> None:
    scene = Scene()
    scene.shows(ADDRESS, version="4.2.0", metadataVersion="3.9-IV0")
    levels = [{"name": "eligible.leader.replicas.version", "level": 1}]
    scene.api.edit(features={"levels": levels}, workload={"driver": "None"})
    await scene.work()
    (blocker,) = scene.api.status["blockers"]
    assert blocker["kind"] == "Dependency"
    assert blocker["remedy"] == "set spec.kafka.metadataVersion of Kafka my-cluster to 4.0-IV1 or higher"


ELR = "eligible.leader.replicas.version"


async def of_release(*levels: dict[str, object], metadata_version: str = "3.9-IV0", failure: str = "") -> Scene:
    """A document of Kafka 4.2 with these levels, reconciled at metadata.version 21. `metadata_version`: that Strimzi is
    to set. `failure`: why it could not.
    """
    scene = Scene()
    scene.shows(ADDRESS, failure, version="4.2.0", metadataVersion=metadata_version)
    features = {"releaseVersion": "4.2", "levels": [*levels]}
    scene.api.edit(features=features, approval={"policy": "Never"}, workload={"driver": "None"})
    for _ in range(8):
        await scene.work()
    return scene


async def test_levels_of_a_release_do_not_wait_for_one_that_requires_another_metadata_version() -> None:
    scene = await of_release()
    assert "blockers" not in scene.api.status
    features = {feature["name"]: feature for feature in scene.api.status["features"]}
    assert (features["group.version"]["finalized"], features["share.version"]["finalized"]) == (1, 1)
    waiting = features[ELR]
    assert (waiting["finalized"], waiting["desired"], waiting["state"]) == (0, 1, "Pending")
    assert scene.api.status["progress"] == "4/5 levels"
    assert scene.api.condition("Ready")["message"].endswith(
        "not yet, as eligible.leader.replicas.version 1 requires metadata.version 23 (4.0-IV1), which would be 21: "
        "set spec.kafka.metadataVersion of Kafka my-cluster to 4.0-IV1 or higher"
    )


@pytest.mark.parametrize(
    ("failure", "why"), [("", ""), ("Timed out", ", which failed: Timed out")], ids=["not yet", "failed"]
)
async def test_a_level_of_a_release_waits_for_a_metadata_version_that_strimzi_has_still_to_set(
    failure: str, why: str
) -> None:
    scene = await of_release(metadata_version="4.2-IV1", failure=failure)
    says = f"which would be 21: wait until Strimzi (Kafka my-cluster) sets it to 29 (4.2-IV1){why}"
    assert says in scene.api.condition("Ready")["message"]


async def test_a_level_of_a_release_that_the_document_sets_to_another_one_is_not_waited_for() -> None:
    scene = await of_release({"name": ELR, "level": 0})
    assert "not yet" not in scene.api.condition("Ready")["message"]
    assert scene.api.status["progress"] == "5/5 levels"


FAILED = "Failed to update metadata version to 3.6-IV2"


async def test_the_reason_for_which_strimzi_could_not_set_its_level_is_that_of_a_dry_run() -> None:
    scene = Scene()
    scene.shows(ADDRESS, FAILED, version="4.2.0", metadataVersion="3.6-IV2")
    problem = (await scene.metadata_version())["managedProblem"]
    assert problem.startswith(f"{FAILED}: Kafka: ")
    assert "downgrade from 21 to 14. Refusing to perform the requested downgrade" in problem
    assert scene.kafka.sent == []  # the level itself is never changed


async def test_in_mode_observe_the_reason_is_that_of_our_rules() -> None:
    scene = Scene()
    scene.shows(ADDRESS, FAILED, version="4.2.0", metadataVersion="3.6-IV2")
    problem = (await scene.metadata_version("Observe"))["managedProblem"]
    assert problem.startswith(f"{FAILED}: metadata.version 21 (3.9-IV0) can be downgraded to 17 (3.7-IV2), not to 14")


async def test_a_failure_that_is_over_has_no_reason() -> None:
    scene = Scene()
    scene.shows(ADDRESS, FAILED, metadataVersion="3.9-IV0")  # the level that the cluster has
    assert (await scene.metadata_version())["managedProblem"] == FAILED
