"""`kafkafeatures init`: prints a document in mode Observe for a live cluster, to begin with; for a cluster of Strimzi
without reading it. Changes nothing.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from typing import Any

from kafkafeatures.api.names import API_VERSION, CREDENTIALS, KIND, KRAFT_VERSION
from kafkafeatures.cli.cluster.connect import add_connection_flags, look, on_cluster, settings_from_flags
from kafkafeatures.cli.kube.strimzi_flags import add_strimzi_flags
from kafkafeatures.cli.shell.exit_codes import CommandFailed, Exit
from kafkafeatures.cli.shell.output import print_document
from kafkafeatures.cli.shell.values import resource_name
from kafkafeatures.core.facts.observation import Observation, Unknown, supported_by_all
from kafkafeatures.core.facts.releases import level_name
from kafkafeatures.kafka.base.settings import Address, ClusterSettings, Security

_FEATURE_NAME = re.compile(r"[a-z0-9._-]{1,64}")
DEFAULT_NAME = "kafka"
"""Name of the resource, unless `--name` gives another."""
_LOGIN, _CA, _CLIENT = "kafka-login", "kafka-ca", "kafka-client"
_SECRET_KEYS = {_LOGIN: "username, password", _CA: "ca.crt", _CLIENT: "tls.crt, tls.key"}
"""Secrets that a document names, and their keys (docs/how-to/connect.md)."""
_LOGIN_KEYS = {"OAUTHBEARER": "token", "GSSAPI": "username, keytab, krb5.conf"}
"""Keys of a login, by mechanism, where they are not those of a user name and a password."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of `init`."""
    add_connection_flags(parser)
    add_name_flag(parser)
    add_strimzi_flags(parser)
    parser.set_defaults(name=None)


def add_name_flag(parser: argparse.ArgumentParser) -> None:
    """Add `--name`: the name of the document that is made."""
    parser.add_argument(
        "--name", type=resource_name, default=DEFAULT_NAME, help=f"name of the resource (default: {DEFAULT_NAME})"
    )


def run(arguments: argparse.Namespace) -> int:
    """Read the cluster once, and print the document as YAML, with comments for what a person has to do or may add."""
    if arguments.strimzi:
        from kafkafeatures.cli.kube.strimzi import documents_for

        print("".join(documents_for(arguments)), end="")
        return Exit.DONE
    settings = settings_from_flags(arguments)
    observation = on_cluster(look(settings))
    document = document_of(arguments.name or DEFAULT_NAME, settings, observation)
    levels = document["spec"]["features"]["levels"]
    secrets = _secrets_in(document["spec"]["cluster"])
    if secrets:
        print(f"# It needs these Secrets, each with the label {CREDENTIALS}=true: {'; '.join(secrets)}")
    print_document(_with_names(document), "yaml")
    for line in _not_finalized(observation) if levels else ():
        print(f"    # {line}")
    return Exit.DONE


def _with_names(document: dict[str, Any]) -> dict[str, Any]:
    """The document with names such as "4.1-IV1" in place of the numbers of levels, if a level has one."""
    for level in document["spec"]["features"]["levels"]:
        level["level"] = level_name(level["name"], level["level"]) or level["level"]
    return document


def _secrets_in(cluster: dict[str, Any]) -> list[str]:
    """The Secrets that the document names, each with its keys, as a person has to make them."""
    listeners = (cluster, cluster.get("controllerListener") or {})
    names = dict.fromkeys(
        reference["name"]
        for listener in listeners
        for part in (listener.get("tls") or {}, listener.get("sasl") or {})
        for reference in part.values()
        if isinstance(reference, dict)
    )
    keys = dict(_SECRET_KEYS)
    for sasl in (listener["sasl"] for listener in listeners if "sasl" in listener):
        keys[_LOGIN] = _LOGIN_KEYS.get(sasl["mechanism"], keys[_LOGIN])
    return [f"{name} ({keys[name]})" for name in names]


def _not_finalized(observation: Observation) -> Iterator[str]:
    """Lines of YAML for features that every node supports and that are not finalized, to be printed as comments."""
    finalized = observation.known_levels
    unfinalized = [name for name in observation.feature_names() if not finalized.get(name) and name != KRAFT_VERSION]
    # Names come from nodes: one with a line break would end the comment.
    valid_names = filter(_FEATURE_NAME.fullmatch, unfinalized)
    ranges = {
        name: supported
        for name, supported in supported_by_all(observation, valid_names).items()
        if supported is not None and supported.max > 0
    }
    if ranges:
        yield "Not finalized; remove the comment signs of a level to name it:"
    for name, supported in ranges.items():
        yield f"- name: {name}"
        yield f"  level: {supported.max}"


def document_of(name: str, settings: ClusterSettings, observation: Observation) -> dict[str, Any]:
    """The document in mode Observe, with the finalized levels. Raises CommandFailed if these are unknown."""
    cluster_id, levels = observation.cluster_id, observation.finalized
    if isinstance(cluster_id, Unknown):
        raise CommandFailed(f"the cluster id could not be read: {cluster_id.failure}", Exit.UNREACHABLE)
    if isinstance(levels, Unknown):
        raise CommandFailed(f"the finalized levels could not be read: {levels.failure}", Exit.UNREACHABLE)
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
    """The fields `tls` and `sasl` of a listener. They only name Secrets, which a person has to create
    (docs/how-to/connect.md).
    """
    listener: dict[str, Any] = {}
    if security.tls is not None:
        listener["tls"] = {}
        if security.tls.ca:
            listener["tls"]["caSecretRef"] = {"name": _CA}
        if security.tls.certificate:
            listener["tls"]["clientSecretRef"] = {"name": _CLIENT}
    if security.sasl is not None:
        listener["sasl"] = {"mechanism": security.sasl.mechanism, "secretRef": {"name": _LOGIN}}
    return listener
