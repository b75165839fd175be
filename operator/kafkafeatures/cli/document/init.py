"""`kafkafeatures init`: prints a document in mode Observe for a live cluster, to begin with; for a cluster of Strimzi
without reading it. Changes nothing.
"""

from __future__ import annotations

import argparse
import io
import re
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from kafkafeatures.api.names import API_VERSION, CREDENTIALS, KIND, KRAFT_VERSION
from kafkafeatures.api.values import replace
from kafkafeatures.cli.cluster.connect import add_connection_flags, look, on_cluster, settings_from_flags
from kafkafeatures.cli.kube.strimzi_flags import add_strimzi_flags
from kafkafeatures.cli.shell.exit_codes import CommandFailed, Exit
from kafkafeatures.cli.shell.output import print_document
from kafkafeatures.cli.shell.values import resource_name
from kafkafeatures.core.facts.observation import Observation, Unknown, supported_by_all
from kafkafeatures.core.facts.releases import bundle, level_name, releases
from kafkafeatures.kafka.base.settings import Address, ClusterSettings, Security

_FEATURE_NAME = re.compile(r"[a-z0-9._-]{1,64}")
DEFAULT_NAME = "kafka"
"""Name of the resource, unless `--name` gives another."""
_CREATE = {
    "caSecretRef": "generic {} --from-file=ca.crt",
    "clientSecretRef": "tls {} --cert=tls.crt --key=tls.key",
    "OAUTHBEARER": (
        "generic {} --from-literal=token-url=URL --from-literal=client-id=ID --from-literal=client-secret=SECRET"
    ),
    "GSSAPI": "generic {} --from-literal=username=PRINCIPAL --from-file=keytab --from-file=krb5.conf",
    "secretRef": "generic {} --from-literal=username=USERNAME --from-literal=password=PASSWORD",
}
"""Arguments of `kubectl create secret` for a Secret that a document names (docs/how-to/connect.md), by the field that
names it; of a login first by its mechanism.
"""


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
    levels = {level["name"]: level["level"] for level in document["spec"]["features"]["levels"]}
    for line in _secrets_to_create(document["spec"]["cluster"]):
        print(f"# {line}")
    highest = _highest_levels(observation)
    sys.stdout.write(_with_comments(_text_of(_with_names(document)), levels, highest))
    for line in _not_finalized(levels, highest) if levels else ():
        print(f"    # {line}")
    return Exit.DONE


def _text_of(document: dict[str, Any]) -> str:
    stream = io.StringIO()
    print_document(document, "yaml", stream)
    return stream.getvalue()


def _highest_levels(observation: Observation) -> dict[str, int]:
    """The highest level that every node supports, by feature; without features whose range is unknown on a node, and
    without kraft.version, which no release raises.
    """
    names = [
        name
        for name in observation.feature_names()
        if name != KRAFT_VERSION and all(node.known_range_of(name) is not None for node in observation.nodes)
    ]
    ranges = supported_by_all(observation, names)
    return {name: supported.max for name, supported in ranges.items() if supported is not None}


def _with_comments(text: str, levels: Mapping[str, int], highest: Mapping[str, int]) -> str:
    """The text of a document, with the highest level beside each level that can be raised, and a line on how to raise
    them all. `levels`: those in the document, in its order.
    """
    raised = next((name for name in reversed(releases()) if _can_be_raised_to(name, levels, highest)), "")
    features, lines = iter(levels), []
    for line in text.splitlines():
        if raised and line == "    levels:":
            lines.append(f'    # To raise them, replace levels with releaseVersion: "{raised}", and set mode: Apply.')
        if line.startswith("      level: ") and highest.get(name := next(features), 0) > levels[name]:
            level = level_name(name, highest[name]) or highest[name]
            line += f"  # every node supports {level}"  # noqa: PLW2901 - the same line, longer
        lines.append(line)
    return "\n".join([*lines, ""])


def _can_be_raised_to(release: str, levels: Mapping[str, int], highest: Mapping[str, int]) -> bool:
    """True if every node supports the levels of the release, and one of them is above the finalized level."""
    targets = bundle(release) or {}
    supported = all(level <= highest.get(name, 0) for name, level in targets.items())
    return supported and any(level > levels.get(name, 0) for name, level in targets.items())


def _with_names(document: dict[str, Any]) -> dict[str, Any]:
    """The document with names such as "4.1-IV1" in place of the numbers of levels, if a level has one."""
    for level in document["spec"]["features"]["levels"]:
        level["level"] = level_name(level["name"], level["level"]) or level["level"]
    return document


def _secrets_to_create(cluster: dict[str, Any]) -> Iterator[str]:
    """Lines with the commands that create the Secrets which the document names; none if it names none."""
    listeners = (cluster, cluster.get("controllerListener") or {})
    parts = [part for listener in listeners for part in (listener.get("tls") or {}, listener.get("sasl") or {})]
    commands: dict[str, str] = {}
    for part in parts:
        for field, reference in part.items():
            if isinstance(reference, dict):
                commands.setdefault(reference["name"], _CREATE.get(part.get("mechanism", ""), _CREATE[field]))
    if commands:
        yield "It names Secrets; create them in the namespace of the resource:"
    for name, arguments in commands.items():
        yield f"  kubectl create secret {arguments.format(name)} -n NAMESPACE"
        yield f"  kubectl label secret {name} {CREDENTIALS}=true -n NAMESPACE"


def _not_finalized(levels: Mapping[str, int], highest: Mapping[str, int]) -> Iterator[str]:
    """Lines of YAML for features that every node supports and that are not finalized, to be printed as comments."""
    # Names come from nodes: one with a line break would end the comment.
    unfinalized = [name for name in highest if highest[name] and name not in levels and _FEATURE_NAME.fullmatch(name)]
    if unfinalized:
        yield "Supported by every node, but off. Uncomment to turn on:"
    for name in unfinalized:
        yield f"- name: {name}"
        yield f"  level: {highest[name]}"


def document_of(name: str, settings: ClusterSettings, observation: Observation) -> dict[str, Any]:
    """The document in mode Observe, with the finalized levels. Raises CommandFailed if these are unknown."""
    cluster_id, levels = observation.cluster_id, observation.finalized
    if isinstance(cluster_id, Unknown):
        raise CommandFailed(
            f"the cluster id could not be read: {cluster_id.failure}", Exit.UNREACHABLE, is_of_cluster=True
        )
    if isinstance(levels, Unknown):
        raise CommandFailed(
            f"the finalized levels could not be read: {levels.failure}", Exit.UNREACHABLE, is_of_cluster=True
        )
    cluster: dict[str, Any] = {}
    if settings.bootstrap_servers:
        cluster["bootstrapServers"] = _listed(settings.bootstrap_servers)
    if settings.bootstrap_controllers:
        cluster["bootstrapControllers"] = _listed(settings.bootstrap_controllers)
    cluster["clusterId"] = cluster_id.value
    cluster |= _listener(settings.brokers, settings.brokers)
    if settings.controllers != settings.brokers:
        cluster["controllerListener"] = _listener(settings.controllers, settings.brokers)
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


def _listener(security: Security, brokers: Security) -> dict[str, Any]:
    """The fields `tls` and `sasl` of a listener. They only name Secrets, which a person has to create
    (docs/how-to/connect.md). What the listener of the brokers has as well is in the same Secret.
    """
    listener: dict[str, Any] = {}
    if security.tls is not None:
        tls = brokers.tls or security.tls
        listener["tls"] = {}
        if security.tls.ca:
            listener["tls"]["caSecretRef"] = _secret("ca", is_shared=security.tls.ca == tls.ca)
        if security.tls.certificate:
            is_shared = security.tls.certificate == tls.certificate
            listener["tls"]["clientSecretRef"] = _secret("client", is_shared=is_shared)
    if security.sasl is not None:
        is_shared = brokers.sasl is None or security.sasl == replace(brokers.sasl, mechanism=security.sasl.mechanism)
        secret = _secret("login", is_shared=is_shared)
        listener["sasl"] = {"mechanism": security.sasl.mechanism, "secretRef": secret}
    return listener


def _secret(kind: str, *, is_shared: bool) -> dict[str, str]:
    """Reference to a Secret. `is_shared`: the same for both listeners."""
    return {"name": f"kafka-{kind}" if is_shared else f"kafka-controllers-{kind}"}
