"""Files of the product that name Strimzi: those that know what it does, and those that have a reason of their own.

All others see a driver (`core/roll/drivers.py`) or a cluster that was found (`reconcile/connections.py`).
"""

from __future__ import annotations

from pathlib import Path

OPERATOR = Path(__file__).resolve().parents[2] / "operator"
KNOWING = {
    "kafkafeatures/cli/kube/strimzi.py",
    "kafkafeatures/cli/kube/strimzi_flags.py",
    "kafkafeatures/cli/kube/strimzi_settings.py",
    "kafkafeatures/core/roll/strimzi.py",
    "kafkafeatures/kube/workloads/strimzi.py",
    "kafkafeatures/reconcile/strimzi.py",
    "kafkafeatures/reconcile/strimzi_levels.py",
}
NAMING = {
    # what people write and read
    "kafkafeatures/api/spec.py": "the field spec.cluster.strimzi",
    "kafkafeatures/api/reasons.py": "the reasons of its driver",
    "kafkafeatures/core/resolve.py": "the meaning of that field",
    "kafkafeatures/core/roll/drivers.py": "the line that registers its driver",
    "kafkafeatures/cli/describe.py": "the flag --strimzi",
    "kafkafeatures/cli/document/init.py": "the flag --strimzi",
    # where a document with that field becomes a connection, or cannot
    "kafkafeatures/reconcile/connections.py": "clusters are found by it",
    "kafkafeatures/cli/cluster/document_settings.py": "clusters are found by it, from a shell",
    # formats that its images have, whoever restarts their pods
    "kafkafeatures/client_files/logs/events.py": "the layout of its log lines",
    "kafkafeatures/core/clients/exporters.py": "the names of its metrics",
    "kafkafeatures/core/facts/binaries.py": "the tags of its images",
    "kafkafeatures/core/levels/dynamic_quorum.py": "the listeners that show its nodes, also without its driver",
    "kafkafeatures/prometheus/brokers.py": "the labels of its pods",
}
"""Other files, each with its reason."""


def test_no_other_file_names_strimzi_than_those_that_have_a_reason() -> None:
    files = {
        str(path.relative_to(OPERATOR)) for path in OPERATOR.rglob("*.py") if "strimzi" in path.read_text().lower()
    }
    assert files == KNOWING | NAMING.keys()
