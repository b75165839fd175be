"""Settings that a node must have, and must not have, in each phase of a migration: a table.

Pure. Called by `core/migration/demands.py`. The operator writes no setting: it tells people which settings are
required. They are compared with the node's own report (DescribeConfigs) before another node is restarted. Rules: Kafka
3.9 "ZooKeeper to KRaft Migration", `KafkaConfig.scala` of Kafka 3.9, and tests with real nodes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum

from msgspec import Struct, field

from kafkafeatures.core.facts.settings import IBP, Setting, SettingSource
from kafkafeatures.core.migration.positions import FLAG

CONNECT = "zookeeper.connect"
VOTERS, BOOTSTRAP = "controller.quorum.voters", "controller.quorum.bootstrap.servers"
LISTENER = "inter.broker.listener.name"
QUORUM_LISTENERS, PROTOCOLS = "controller.listener.names", "listener.security.protocol.map"
NAMED_BY_DEFAULT = frozenset({"PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"})
"""Listeners in the default of listener.security.protocol.map."""
AUTHORIZER = "authorizer.class.name"
STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
SUPER_USERS, ALLOW_EVERYONE = "super.users", "allow.everyone.if.no.acl.found"
"""Kafka does not define them, so a node reports only that they are set, without a value."""
PRINCIPALS = "User:<each broker>;User:<each controller>;User:<KafkaFeatures>"
"""Value of SUPER_USERS as it is shown to people, who put in the names."""
HIDDEN = "(secret)"
"""Text in place of the value of a secret setting."""
DECIDED = (
    "create.topic.policy.class.name", "alter.config.policy.class.name", "default.replication.factor", "num.partitions",
    "auto.leader.rebalance.enable", "leader.imbalance.check.interval.seconds", "unclean.leader.election.enable",
    "delete.topic.enable", "principal.builder.class", "delegation.token.max.lifetime.ms",
    "delegation.token.expiry.time.ms", "delegation.token.expiry.check.interval.ms", "controller.quota.window.num",
    "controller.quota.window.size.seconds",
)  # fmt: skip
"""Settings of brokers by which controllers decide after the copy: policies, defaults of new topics, elections and so
on. leader.imbalance.per.broker.percentage is not among them, as KRaft controllers do not read it.
"""
OF_ZOOKEEPER = "kafka.security.authorizer.AclAuthorizer"
"""Authorizer that keeps ACLs in ZooKeeper."""


class Shape(StrEnum):
    """Role and mode of a node, in words for people."""

    MIGRATING_CONTROLLER = "a controller that migrates"
    FLAGGED_BROKER = "a broker in ZooKeeper mode that migrates"
    KRAFT_BROKER = "a broker in KRaft mode"
    CONTROLLER = "a controller without ZooKeeper"
    PLAIN_BROKER = "a broker in ZooKeeper mode"


class Requirement(StrEnum):
    """Requirement for a setting that names no value."""

    SET = "set"
    NOT_SET = "not set"


Rule = Requirement | str
"""A `Requirement`, or the value that the setting must have."""


class SettingFacts(Struct, frozen=True):
    """Facts from which the required values are derived.

    node_id: id of the node; None: a node that does not exist yet.
    ibp: the required inter.broker.protocol.version; empty: not known, so any value will do.
    dynamic: the quorum is given by controller.quorum.bootstrap.servers, not by controller.quorum.voters.
    listener: inter.broker.listener.name of the brokers; empty: not set.
    acls: brokers keep ACLs in ZooKeeper.
    quorum_listener: listener of the controllers; empty: not known.
    values: by name, values that all nodes share; only shown to people, as other values may be right too.
    decided: by name, values of `DECIDED` that all brokers share; only shown, as the preflight compares them.
    authorizes: a broker has an authorizer; only shown.
    allows_everyone: a broker sets ALLOW_EVERYONE; only shown.
    """

    node_id: int | None
    ibp: str
    dynamic: bool = False
    listener: str = ""
    acls: bool = False
    quorum_listener: str = ""
    values: Mapping[str, str] = field(default_factory=dict)
    decided: Mapping[str, str] = field(default_factory=dict)
    authorizes: bool = False
    allows_everyone: bool = False


class SettingDifference(Struct, frozen=True):
    """A setting that is not as required.

    name: the setting.
    rule: the requirement.
    actual: the present value; None: not set.
    """

    name: str
    rule: Rule
    actual: str | None

    def __str__(self) -> str:
        if self.rule is Requirement.NOT_SET:
            return f"remove {self.name}"
        current = "not set" if self.actual is None else f"now {self.actual}"
        return f"set {self.name}" + (f"={self.rule}" if self.rule is not Requirement.SET else "") + f" ({current})"


SET, NOT_SET = Requirement.SET, Requirement.NOT_SET
C, F, K, N, P = Shape  # in the order of `Shape`, so N is a controller without ZooKeeper

TABLE: Mapping[str, Mapping[Shape, Rule]] = {
    "process.roles": {C: "controller", F: NOT_SET, K: "broker", N: "controller", P: NOT_SET},
    "node.id": {C: "{node_id}", K: "{node_id}", N: "{node_id}"},
    "broker.id": {F: "{node_id}", P: "{node_id}"},
    FLAG: {C: "true", F: "true", K: NOT_SET, N: NOT_SET, P: NOT_SET},
    CONNECT: {C: SET, F: SET, K: NOT_SET, N: NOT_SET, P: SET},
    IBP: {F: "{ibp}", K: NOT_SET, P: "{ibp}"},
    "{quorum}": {C: SET, F: SET, K: SET, N: SET},
    VOTERS: {P: NOT_SET},
    BOOTSTRAP: {P: NOT_SET},
    QUORUM_LISTENERS: {C: SET, F: SET, K: SET, N: SET, P: NOT_SET},
    "control.plane.listener.name": {K: NOT_SET},
}
"""By setting and shape, the requirement; no entry: the setting does not matter. `{node_id}`, `{ibp}` and `{quorum}`
stand for values of `SettingFacts`. `kafkafeatures migration settings` shows the table.
"""


def required(shape: Shape, setting_facts: SettingFacts) -> Iterator[tuple[str, Rule]]:
    """Required settings, each with its rule, in the order of the table."""
    values = {
        "node_id": "" if setting_facts.node_id is None else str(setting_facts.node_id),
        "ibp": setting_facts.ibp,
        "quorum": BOOTSTRAP if setting_facts.dynamic else VOTERS,
    }
    for name, row in TABLE.items():
        rule = row.get(shape)
        if rule is not None:
            yield (
                name.format(**values),
                rule if isinstance(rule, Requirement) else rule.format(**values) or Requirement.SET,
            )
    if shape in (C, N) and setting_facts.listener:  # controllers refuse brokers that lack it
        yield LISTENER, setting_facts.listener
    if shape is F and (entry := _entry_of(setting_facts.quorum_listener)):
        yield PROTOCOLS, entry  # else a broker does not start
    if setting_facts.acls and shape in (C, K, N):
        yield AUTHORIZER, STANDARD_AUTHORIZER
    if setting_facts.acls and shape in (F, P):
        yield AUTHORIZER, OF_ZOOKEEPER


def _entry_of(listener: str) -> str:
    """Entry of listener.security.protocol.map that this listener needs; empty if it needs none, or is not known."""
    return f"...,{listener}:..." if listener and listener.upper() not in NAMED_BY_DEFAULT else ""


def differences(
    shape: Shape, setting_facts: SettingFacts, settings: Mapping[str, Setting]
) -> tuple[SettingDifference, ...]:
    """Settings of a node that are not as required. `settings`: those that the node reported, by name; a setting that is
    missing there counts as not set.
    """
    return tuple(
        SettingDifference(name, rule, value)
        for name, rule in required(shape, setting_facts)
        if not _holds(name, rule, value := _value(settings.get(name)))
    )


def _value(setting: Setting | None) -> str | None:
    """Value of a setting; None if it has only its default; `HIDDEN` for a secret."""
    if setting is None or setting.source is SettingSource.DEFAULT:
        return None
    return HIDDEN if setting.is_secret else setting.value


def _holds(name: str, rule: Rule, value: str | None) -> bool:
    if rule is Requirement.NOT_SET:
        return not value or (name == FLAG and value == "false")  # false is Kafka's default
    if rule is Requirement.SET:
        return bool(value)
    if name == PROTOCOLS:
        return _listeners(rule)[-1] in _listeners(value or "")  # the rule is "...,NAME:..."
    return value == rule or (value is not None and _release(value) == _release(rule))


def _listeners(protocols: str) -> list[str]:
    """Names of the listeners in a map such as `INTERNAL:SSL,CONTROLLER:SSL`."""
    return [entry.partition(":")[0].strip().upper() for entry in protocols.split(",")]


def _release(ibp: str) -> str:
    """The release that an IBP names: `3.9` and `3.9-IV0` are the same level. Any other value is unchanged."""
    return ibp.removesuffix("-IV0") if ibp[:1].isdigit() else ibp


class Lines(Struct, frozen=True):
    """Lines for the configuration file of a node.

    add: lines that it must have.
    remove: lines that it must not have.
    """

    add: tuple[str, ...]
    remove: tuple[str, ...] = field(default=())


def lines_of(shape: Shape, setting_facts: SettingFacts) -> Lines:
    """Lines `name=value` for a file, with `...` for a value that people choose and no node has yet."""
    rules = tuple(required(shape, setting_facts))
    add = [
        f"{name}={setting_facts.values.get(name, '...') if rule is Requirement.SET else rule}"
        for name, rule in rules
        if rule is not Requirement.NOT_SET
    ]
    if shape in (C, N) and (entry := _entry_of(setting_facts.listener)):
        add.append(f"{PROTOCOLS}={entry}")  # only shown, not checked: a controller that runs has it
    if shape in (C, N):
        add += [f"{name}={value}" for name, value in setting_facts.decided.items()]
        if setting_facts.authorizes:
            add.append(f"{SUPER_USERS}={PRINCIPALS}")
        if setting_facts.authorizes and setting_facts.allows_everyone:
            add.append(f"{ALLOW_EVERYONE}=...")
    return Lines(tuple(add), tuple(name for name, rule in rules if rule is Requirement.NOT_SET))
