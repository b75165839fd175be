"""An observation made from the metadata log alone, without asking any node."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from kafkafeatures.core.facts.observation import Known, MetadataMode, NodeState, Observation, SourceKind, Unknown
from kafkafeatures.core.facts.observe_files import NO_LEADER, observe_files
from kafkafeatures.core.facts.readings import FailureKind, LogReading, Role
from kraftlog import Replay
from kraftlog.schema import table
from tests.kraftlog.build import broker, control_batch, controller, level, log

AT = datetime(2026, 11, 21, tzinfo=UTC)


def observe_batches(*batches: bytes, cluster_id: str = "abc") -> Observation:
    replay = Replay()
    replay.append(b"".join(batches), below=100)
    image = replay.image()
    leads = NO_LEADER if image.leader_id is None else image.leader_id
    reading = LogReading(image, image.offset, leads, image.epoch, AT)
    return observe_files(reading, cluster_id=cluster_id, files="a/folder")


def leader(*voters: int) -> bytes:
    data: dict[str, Any] = {"voters": tuple({"voterId": voter} for voter in voters), "grantingVoters": ()}
    return control_batch(0, (table.LEADER_CHANGE, {"leaderId": voters[0], **data}))


def test_no_node_of_a_log_in_files_is_live_and_each_has_the_failure_not_asked() -> None:
    nodes = [controller(3001), broker(1, 1), broker(2, 2, fenced=False)]
    observation = observe_batches(leader(3001), log(nodes, [level("metadata.version", 21)], start=1))
    assert [(node.id, node.roles, node.state) for node in observation.nodes] == [
        (3001, (Role.CONTROLLER,), NodeState.UNREACHABLE),
        (1, (Role.BROKER,), NodeState.FENCED),
        (2, (Role.BROKER,), NodeState.UNREACHABLE),
    ]
    for node in observation.nodes:
        assert isinstance(node.answer, Unknown)
        assert str(node.answer.failure) == "a/folder: read from files; no node was asked"
        supported_range = node.range_of("metadata.version")
        assert isinstance(supported_range, Known)
        assert (supported_range.value.min, supported_range.value.max, supported_range.source) == (
            7,
            29,
            SourceKind.METADATA_LOG,
        )


def test_levels_mode_leader_and_source_are_those_of_the_log_in_files() -> None:
    observation = observe_batches(leader(3001, 3002), log([level("metadata.version", 21)], start=1))
    assert isinstance(observation.finalized, Known)
    assert dict(observation.finalized.value) == {"metadata.version": 21}
    assert isinstance(observation.mode, Known)
    assert observation.mode.value is MetadataMode.KRAFT
    assert isinstance(observation.active_controller, Known)
    assert observation.active_controller.value == 3001
    assert (observation.source.files, observation.source.offset, observation.source.at) == ("a/folder", 2, AT)
    assert observation.gaps == ()
    assert isinstance(observation.partitions, Unknown)
    assert isinstance(observation.quorum, Unknown)


def test_the_cluster_id_and_the_leader_are_unknown_where_the_files_do_not_have_them() -> None:
    observation = observe_batches(log([level("metadata.version", 21)]), cluster_id="")
    assert isinstance(observation.cluster_id, Unknown)
    assert "no meta.properties" in str(observation.cluster_id.failure)
    assert isinstance(observation.active_controller, Unknown)
    assert observation.active_controller.failure.kind is FailureKind.NOT_ASKED


def test_a_registration_of_voters_does_not_make_a_controller_live() -> None:
    ranges = {"minSupportedVersion": 0, "maxSupportedVersion": 1}
    voter = {"voterId": 1, "voterDirectoryId": UUID(int=1), "endpoints": (), "kRaftVersionFeature": ranges}
    voters = control_batch(0, (table.KRAFT_VOTERS, {"voters": (voter,)}))
    (first, other) = observe_batches(voters, log([controller(1), controller(2)], start=1)).nodes
    assert (first.state, first.is_voter) == (NodeState.UNREACHABLE, True)
    assert (other.state, other.is_voter) == (NodeState.UNREACHABLE, False)
