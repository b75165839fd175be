"""The `Observation` of a cluster of which only the metadata log of one node is there, as files.

Pure. Called by `describe --from`. It is `observe` with a log and no answers, under the rules of
`core/facts/membership.py`: fenced brokers are Fenced. Every other node is Unreachable, because it was not asked: the
log shows that the cluster counts on it, not that it runs.
"""

from __future__ import annotations

from kafkafeatures.api.values import replace
from kafkafeatures.core.facts.observation import Known, Observation, SourceKind, Unknown
from kafkafeatures.core.facts.observe import observe
from kafkafeatures.core.facts.readings import ClusterProbe, Failure, FailureKind, LogReading

NO_LEADER = -1


def observe_files(reading: LogReading, *, cluster_id: str, files: str) -> Observation:
    """Observation of a log in files. The reading's leader is NO_LEADER where the log names none; its time is that of
    the last record. `files`: their path. `cluster_id`: empty where it is not known.
    """
    unasked = Failure(FailureKind.NOT_ASKED, files, "read from files; no node was asked")
    at, leader = reading.at, reading.leader_id
    no_id = Failure(FailureKind.NOT_ASKED, files, "the cluster id is not known: no meta.properties is beside the log")
    probe = ClusterProbe(
        at=at, cluster_id=cluster_id or no_id, brokers=unasked, controllers=unasked, quorum=unasked, nodes=()
    )
    observation = observe(probe, reading)
    return replace(
        observation,
        source=replace(observation.source, files=files),
        nodes=tuple(replace(node, answer=Unknown(unasked)) for node in observation.nodes),
        active_controller=Unknown(unasked)
        if leader == NO_LEADER
        else Known(leader, SourceKind.METADATA_LOG, files, at),
    )
