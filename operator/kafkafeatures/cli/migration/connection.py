"""Settings to connect to the cluster and the ensemble, from a document or from flags, for the commands of
`migration`.
"""

from __future__ import annotations

import argparse
from typing import NamedTuple

from kafkafeatures.api.document import InvalidDocument
from kafkafeatures.cli.cluster import ensemble as ensembles
from kafkafeatures.cli.cluster.connect import settings_from_flags
from kafkafeatures.cli.cluster.document_settings import document_errors
from kafkafeatures.cli.document.documents import documents_of
from kafkafeatures.cli.shell.exit_codes import CommandFailed, Exit
from kafkafeatures.kafka.base.settings import ClusterSettings
from kafkafeatures.reconcile.credentials import ensemble_of, secrets_in, settings_of
from kafkafeatures.zookeeper.ensemble import Ensemble


class MigrationConnection(NamedTuple):
    """Connection settings of cluster and ensemble. `desired`: the phase that the document asks for; empty if flags name
    the cluster.
    """

    settings: ClusterSettings
    ensemble: Ensemble
    desired: str = ""


def connection_of(arguments: argparse.Namespace) -> MigrationConnection:
    """The settings in the document or the flags. Raises CommandFailed."""
    if arguments.file is not None:
        return _in_document(arguments)
    if not arguments.zookeeper:
        raise CommandFailed("no ensemble given; use --zookeeper, or -f FILE for cluster and ensemble", Exit.USAGE)
    return MigrationConnection(settings_from_flags(arguments), ensembles.named(arguments))


def _in_document(arguments: argparse.Namespace) -> MigrationConnection:
    """The settings in the document of `-f`. Raises CommandFailed for flags that contradict it."""
    cluster_flags = [
        f"--{name.replace('_', '-')}"
        for name in ("zookeeper", "zookeeper_config", "bootstrap_server", "bootstrap_controller", "profile")
        if getattr(arguments, name)
    ]
    if cluster_flags:
        raise CommandFailed(f"-f and {cluster_flags[0]} cannot be combined: the document names the cluster", Exit.USAGE)
    document, *other_documents = documents_of(arguments)
    if other_documents:
        raise CommandFailed(f"{1 + len(other_documents)} documents found; migration is about one cluster", Exit.USAGE)
    with document_errors(document.file):
        spec, secrets = document.resource.spec, secrets_in(arguments.secrets_dir)
        ensemble = ensemble_of(spec.cluster, secrets)
        if ensemble is None:
            raise InvalidDocument(
                ("spec.cluster.zookeeper is not set; set its connect to the brokers' zookeeper.connect",)
            )
        desired = spec.migration.desired if spec.migration is not None else ""
        return MigrationConnection(document.settings or settings_of(spec.cluster, secrets), ensemble, desired)
