"""`kafkafeatures init`: a document in mode Observe that matches a live cluster. How one adopts it. Changes nothing."""

from __future__ import annotations

import argparse
from typing import Any

from kafkafeatures.api.names import API_VERSION, KIND, KRAFT_VERSION
from kafkafeatures.cli.cluster.connect import add_connection_flags, look, on_cluster, settings_from_flags
from kafkafeatures.cli.shell.exit_codes import CommandFailed, Exit
from kafkafeatures.cli.shell.output import print_document
from kafkafeatures.cli.shell.values import resource_name
from kafkafeatures.core.facts.observation import Observation, Unknown
from kafkafeatures.kafka.base.settings import Address, ClusterSettings, Security


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of `init`."""
    add_connection_flags(parser)
    add_name_flag(parser)


def add_name_flag(parser: argparse.ArgumentParser) -> None:
    """`--name`, of the document that is made."""
    parser.add_argument(
        "--name", type=resource_name, default="kafka", help="name of the resource (default: %(default)s)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Look once and print the document as YAML."""
    settings = settings_from_flags(arguments)
    print_document(document_of(arguments.name, settings, on_cluster(look(settings))), "yaml")
    return Exit.DONE


def document_of(name: str, settings: ClusterSettings, observation: Observation) -> dict[str, Any]:
    """In mode Observe, with the levels that are finalized. Raises CommandFailed where these are not known."""
    cluster_id, levels = observation.cluster_id, observation.finalized
    if isinstance(cluster_id, Unknown):
        raise CommandFailed(f"the cluster id could not be read: {cluster_id.why}", Exit.UNREACHABLE)
    if isinstance(levels, Unknown):
        raise CommandFailed(f"the finalized levels could not be read: {levels.why}", Exit.UNREACHABLE)
    cluster: dict[str, Any] = {}
    if settings.bootstrap_servers:
        cluster["bootstrapServers"] = _listed(settings.bootstrap_servers)
    if settings.bootstrap_controllers:
        cluster["bootstrapControllers"] = _listed(settings.bootstrap_controllers)
    cluster["clusterId"] = cluster_id.value
    cluster |= _listener(settings.brokers)
    if settings.controllers != settings.brokers:
        cluster["controllerListener"] = _listener(settings.controllers)
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": name},
        "spec": {
            "mode": "Observe",
            "cluster": cluster,
            "features": {
                "levels": [
                    {"name": feature, "level": level}
                    for feature, level in sorted(levels.value.items())
                    if level and feature != KRAFT_VERSION
                ]
            },
        },
    }


def _listed(addresses: tuple[Address, ...]) -> str:
    return ",".join(map(str, addresses))


def _listener(security: Security) -> dict[str, Any]:
    """References only: the secrets have to be made under these names (docs/how-to/connect.md)."""
    found: dict[str, Any] = {}
    if security.tls is not None:
        found["tls"] = {}
        if security.tls.ca:
            found["tls"]["caSecretRef"] = {"name": "kafka-ca"}
        if security.tls.certificate:
            found["tls"]["clientSecretRef"] = {"name": "kafka-client"}
    if security.sasl is not None:
        found["sasl"] = {"mechanism": security.sasl.mechanism, "secretRef": {"name": "kafka-login"}}
    return found
