"""Make an `Observation` from the files of a metadata log alone, without asking any node.

Pure. Called by `describe --from`. It calls `observe` with a log and no answers, so that the rules of
`core/facts/membership.py` apply: a fenced broker is Fenced, unless it is a controller too; every other node is
Unreachable. The log shows that the cluster counts on a node, not that the node runs.
"""

from __future__ import annotations

from kafkafeatures.api.values import replace
from kafkafeatures.core.facts.observation import Known, Observation, SourceKind, Unknown
from kafkafeatures.core.facts.observe import observe
from kafkafeatures.core.facts.readings import ClusterProbe, Failure, FailureKind, LogReading

NO_LEADER = -1
"""`leader_id` of a reading whose log names no leader."""


def observe_files(reading: LogReading, *, cluster_id: str, files: str) -> Observation:
    """Observation of a log in files.

    reading: the log. Its leader is NO_LEADER if the log names none; its time is that of the last record.
    cluster_id: empty if it is not known.
    files: path of the log.
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
