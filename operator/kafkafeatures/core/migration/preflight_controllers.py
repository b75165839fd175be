"""Preflight of controllers: settings that they need to take over the work that brokers and ZooKeeper have done until
now.

Pure. Called through the table of `core/migration/preflight.py`; each public function is a check that yields blockers.
Once ZooKeeper is copied, a controller decides by its own file (`ControllerServer`, `ControllerApis` and
`ConfigurationControlManager` of Kafka 3.9), and Kafka does not warn if that differs from the files of the brokers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from kafkafeatures.api.reasons import BlockerKind
from kafkafeatures.core.engine.blockers import Blocker, Nodes, shortened, these, title_of, verb
from kafkafeatures.core.facts.observation import Node
from kafkafeatures.core.facts.readings import Failure
from kafkafeatures.core.facts.znodes import RegisteredBroker
from kafkafeatures.core.migration.copied.entries import Kind
from kafkafeatures.core.migration.preflight_input import (
    PreflightInput,
    file_value,
    is_set,
    names_in,
    of_each,
    reported,
    sets,
)
from kafkafeatures.core.migration.settings import (
    ALLOW_EVERYONE,
    AUTHORIZER,
    CONNECT,
    DECIDED,
    LISTENER,
    OF_ZOOKEEPER,
    PROTOCOLS,
    QUORUM_LISTENERS,
    STANDARD_AUTHORIZER,
    SUPER_USERS,
)

PROTOCOL, MECHANISM = "security.inter.broker.protocol", "sasl.mechanism.controller.protocol"
ENCODER = "password.encoder.secret"
TOKEN_KEYS = ("delegation.token.secret.key", "delegation.token.master.key")
OF_ITS_CLIENT = ("zookeeper.set.acl", "zookeeper.ssl.client.enable")
"""Settings by which a node uses ZooKeeper. A controller with zookeeper.set.acl does not start without credentials
(`KafkaZkClient.createZkClient`).
"""

Wording: TypeAlias = Callable[[str, str, str, Nodes], tuple[str, str]]
"""Function that makes message and remedy from the setting's name, the controller's value, the brokers' value, and the
controllers.
"""


def brokers_have_the_listener(preflight: PreflightInput) -> Iterator[Blocker]:
    """Brokers have the listener that controllers name as inter.broker.listener.name: without it no broker can register,
    and controllers reach a broker there by the security protocol of their own map.
    """
    if isinstance(preflight.znodes, Failure) or isinstance(preflight.znodes.brokers, Failure):
        return
    listeners_by_broker = {
        broker.id: {name.upper(): protocol for name, protocol in broker.security.items()}
        for broker in preflight.znodes.brokers.values()
        if isinstance(broker, RegisteredBroker)
    }
    for node in preflight.controllers:
        name, protocol = _listener(node)
        lacking = [id_ for id_, listeners in listeners_by_broker.items() if name and name not in listeners]
        other = [
            id_
            for id_, listeners in listeners_by_broker.items()
            if protocol and listeners.get(name, protocol) != protocol
        ]
        if lacking:
            broker_listeners = ", ".join(sorted({_listener(broker)[0] for broker in preflight.brokers} - {""}))
            yield from of_each((node,), BlockerKind.SETTING, _no_listener, name, shortened(lacking), broker_listeners)
        if other:
            yield from of_each((node,), BlockerKind.SETTING, _other_protocol, name, protocol, shortened(other))


def _listener(node: Node) -> tuple[str, str]:
    """Name and security protocol of the inter-broker listener by the settings of this node; empty if not known."""
    values = {
        name: file_value(setting) for name in (LISTENER, PROTOCOL, PROTOCOLS) for _, setting in reported((node,), name)
    }
    name = (values.get(LISTENER) or values.get(PROTOCOL, "")).upper()
    return name, _protocols(values.get(PROTOCOLS, "")).get(name, "")


def _protocols(listed: str) -> dict[str, str]:
    protocols = dict(name.partition(":")[::2] for name in names_in(listed))
    return {key.strip().upper(): value.strip() for key, value in protocols.items()}


def controllers_use_the_same_ensemble(preflight: PreflightInput) -> Iterator[Blocker]:
    """Controllers use the same ZooKeeper servers and chroot as brokers. A controller creates a chroot that does not
    exist, and copies whatever is below it: another cluster, or nothing.
    """
    ensembles = [
        _connect(file_value(setting)) for _, setting in reported(preflight.brokers, CONNECT) if file_value(setting)
    ]
    for node, setting in reported(preflight.controllers, CONNECT):
        if not file_value(setting):
            continue  # required by `settings.py`
        servers, chroot = _connect(file_value(setting))
        if any(
            chroot != other_chroot or servers.isdisjoint(other_servers) for other_servers, other_chroot in ensembles
        ):
            of_brokers = file_value(reported(preflight.brokers, CONNECT)[0][1])
            yield from of_each((node,), BlockerKind.SETTING, _other_ensemble, file_value(setting), of_brokers)


def _connect(value: str) -> tuple[frozenset[str], str]:
    """Servers and chroot in a value of zookeeper.connect."""
    servers, _, chroot = value.partition("/")
    return frozenset(name.lower() for name in names_in(servers)), chroot.strip("/")


def controllers_use_zookeeper_as_brokers_do(preflight: PreflightInput) -> Iterator[Blocker]:
    """Controllers use ZooKeeper with the same settings as brokers; otherwise they may not write, or their znodes are
    open to every client.
    """
    yield from _as_brokers_have_it(preflight, OF_ITS_CLIENT, _other_client)


def controllers_decide_as_brokers_did(preflight: PreflightInput) -> Iterator[Blocker]:
    """Controllers have the brokers' policies and defaults of new topics, elections and deletions."""
    yield from _as_brokers_have_it(preflight, DECIDED, _decides_otherwise)


def _as_brokers_have_it(preflight: PreflightInput, names: tuple[str, ...], wording: Wording) -> Iterator[Blocker]:
    for name in names:
        values = sorted({file_value(setting) for _, setting in reported(preflight.brokers, name)})
        for node, setting in reported(preflight.controllers, name):
            if values and [file_value(setting)] != values:
                of_brokers = " or ".join(value or "unset" for value in values)
                yield from of_each(
                    (node,), BlockerKind.SETTING, wording, name, file_value(setting) or "unset", of_brokers
                )


def controllers_can_read_passwords(preflight: PreflightInput) -> Iterator[Blocker]:
    """Controllers have the secret with which passwords in configs are encoded in ZooKeeper. Without it passwords are
    copied as they are encoded, and no broker can use them.
    """
    paths = () if isinstance(preflight.survey, Failure) else preflight.survey.passwords
    if paths:
        lacking = [node for node in preflight.controllers if node.proved_at and not sets(node, ENCODER)]
        yield from of_each(lacking, BlockerKind.SETTING, _no_encoder, paths[0], len(paths))


def controllers_can_use_tokens(preflight: PreflightInput) -> Iterator[Blocker]:
    """Controllers have the secret key of delegation tokens. Without it no token is valid, and none can be renewed."""
    if not isinstance(preflight.survey, Failure) and preflight.survey.counts.get(Kind.TOKEN):
        lacking = [node for node in preflight.controllers if node.proved_at and not sets(node, *TOKEN_KEYS)]
        yield from of_each(lacking, BlockerKind.SETTING, _no_token_key)


def nodes_can_log_in_to_controllers(preflight: PreflightInput) -> Iterator[Blocker]:
    """Nodes log in to controllers without SCRAM: its credentials are in ZooKeeper, so no controller knows any before
    the copy.
    """
    for node, mechanism in reported(preflight.nodes, MECHANISM):
        values = {
            name: file_value(setting)
            for name in (QUORUM_LISTENERS, PROTOCOLS)
            for _, setting in reported((node,), name)
        }
        listener = next(iter(names_in(values.get(QUORUM_LISTENERS, ""))), "").upper()
        protocol = _protocols(values.get(PROTOCOLS, "")).get(listener, listener)
        if protocol.upper().startswith("SASL") and file_value(mechanism).upper().startswith("SCRAM"):
            yield from of_each((node,), BlockerKind.SETTING, _scram, file_value(mechanism), listener)


def brokers_may_register(preflight: PreflightInput) -> Iterator[Blocker]:
    """Controllers authorize brokers to register (CLUSTER_ACTION). Controllers have no ACLs before the copy, so their
    super.users or allow.everyone.if.no.acl.found must be set.
    """
    classes = {file_value(setting) for _, setting in reported(preflight.brokers, AUTHORIZER)} - {""}
    custom = sorted(classes - {OF_ZOOKEEPER, STANDARD_AUTHORIZER})
    for node, setting in reported(preflight.controllers, AUTHORIZER):
        if custom and file_value(setting) not in custom:
            words = (custom[0], file_value(setting) or "unset")
            yield from of_each((node,), BlockerKind.SETTING, _custom_authorizer, *words)
        elif (
            classes
            and is_set(setting)
            and file_value(setting) not in custom
            and not sets(node, SUPER_USERS, ALLOW_EVERYONE)
        ):
            yield from of_each((node,), BlockerKind.SETTING, _no_super_users)


def controllers_allow_what_brokers_do(preflight: PreflightInput) -> Iterator[Blocker]:
    """Controllers allow operations that no ACL names if brokers do, and only then: after the copy, controllers decide
    about topics and configs.
    """
    for_brokers = any(sets(node, ALLOW_EVERYONE) for node in preflight.brokers)
    for node, setting in reported(preflight.controllers, AUTHORIZER):
        if is_set(setting) and sets(node, ALLOW_EVERYONE) is not for_brokers:
            yield from of_each((node,), BlockerKind.SETTING, _allows_otherwise, for_brokers)


# --- words ---


def _no_listener(name: str, lacking: str, required_value: str, nodes: Nodes) -> tuple[str, str]:
    value = required_value if required_value and "," not in required_value else "the brokers' own"
    return (
        f"{title_of(nodes)} {verb(nodes, 'has', 'have')} {LISTENER} {name}, which is not a listener of brokers "
        f"{lacking}: they could not register",
        f"set {LISTENER}={value} on {these(nodes)}, with its security protocol in {PROTOCOLS}",
    )


def _other_protocol(name: str, protocol: str, brokers: str, nodes: Nodes) -> tuple[str, str]:
    return (
        f"{title_of(nodes)} {verb(nodes, 'has', 'have')} {protocol} for listener {name}, and brokers {brokers} speak "
        "another protocol there",
        f"give listener {name} the brokers' security protocol in {PROTOCOLS} of {these(nodes)}",
    )


def _other_ensemble(current_value: str, of_brokers: str, nodes: Nodes) -> tuple[str, str]:
    return (
        f"{title_of(nodes)} {verb(nodes, 'has', 'have')} {CONNECT} {current_value}, and the brokers have {of_brokers}: "
        "another ensemble, or another chroot, would be copied",
        f"set the brokers' {CONNECT} on {these(nodes)}",
    )


def _other_client(name: str, current_value: str, of_brokers: str, nodes: Nodes) -> tuple[str, str]:
    return (
        f"{title_of(nodes)} {verb(nodes, 'has', 'have')} {name} {current_value}, and the brokers have {of_brokers}: "
        f"{verb(nodes, 'it', 'they')} may not write to ZooKeeper, or leave znodes without ACLs",
        f"give {these(nodes)} the brokers' zookeeper.* settings, with their credentials",
    )


def _decides_otherwise(name: str, current_value: str, of_brokers: str, nodes: Nodes) -> tuple[str, str]:
    return (
        f"{title_of(nodes)} {verb(nodes, 'has', 'have')} {name} {current_value}, and the brokers have {of_brokers}; "
        "the controllers' value applies after the copy",
        f"set the same {name} on all nodes",
    )


def _no_encoder(path: str, count: int, nodes: Nodes) -> tuple[str, str]:
    suffix = f" and {count - 1} more" if count > 1 else ""
    return (
        f"{title_of(nodes)} {verb(nodes, 'does', 'do')} not set {ENCODER}, and ZooKeeper has passwords in configs of "
        f"brokers ({path}{suffix}): they would be copied as they are encoded, and be unusable",
        f"give {these(nodes)} the brokers' {ENCODER}",
    )


def _no_token_key(nodes: Nodes) -> tuple[str, str]:
    return (
        f"{title_of(nodes)} {verb(nodes, 'does', 'do')} not set {TOKEN_KEYS[0]}, and there are delegation tokens: "
        "none of them could be used",
        f"give {these(nodes)} the brokers' {TOKEN_KEYS[0]}",
    )


def _no_super_users(nodes: Nodes) -> tuple[str, str]:
    return (
        f"{title_of(nodes)} {verb(nodes, 'has', 'have')} an authorizer without {SUPER_USERS}: brokers could not "
        "register, because no ACL exists before the copy",
        f"add the principals of the brokers, of the controllers and of KafkaFeatures to {SUPER_USERS} of "
        f"{these(nodes)}",
    )


def _allows_otherwise(for_brokers: bool, nodes: Nodes) -> tuple[str, str]:
    lacks, gives = (verb(nodes, "does not set", "do not set"), "set"), (verb(nodes, "sets", "set"), "do not set")
    has, have = lacks if for_brokers else gives
    return (
        f"{title_of(nodes)} {has} {ALLOW_EVERYONE}, and the brokers {have} it: other requests would be allowed after "
        "the copy",
        f"{'set the same value' if for_brokers else 'remove it'} on {these(nodes)}",
    )


def _scram(mechanism: str, listener: str, nodes: Nodes) -> tuple[str, str]:
    return (
        f"{title_of(nodes)} {verb(nodes, 'has', 'have')} {MECHANISM} {mechanism} for listener {listener}, and no "
        "controller knows a SCRAM credential before the copy: neither brokers nor controllers could log in",
        f"use PLAIN or client certificates, both over TLS, on the listener {listener} of all nodes",
    )


def _custom_authorizer(of_brokers: str, current_value: str, nodes: Nodes) -> tuple[str, str]:
    return (
        f"the brokers have the authorizer {of_brokers}, and {title_of(nodes)} {verb(nodes, 'has', 'have')} "
        f"{AUTHORIZER} {current_value}: requests would be authorized by other rules, or by none",
        f"set {AUTHORIZER}={of_brokers} on {these(nodes)}, if it works without ZooKeeper and lets the brokers register",
    )
