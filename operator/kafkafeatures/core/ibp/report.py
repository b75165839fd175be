"""The inter.broker.protocol.version that each broker uses, for people. Pure."""

from __future__ import annotations

from kafkafeatures.core.engine.blockers import shortened
from kafkafeatures.core.facts.observation import Observation
from kafkafeatures.core.facts.readings import Role
from kafkafeatures.core.ibp.progress import Broker, broker_of


def in_use(observation: Observation) -> str:
    """The version of all brokers, as "3.9"; where they differ of each, as "3.8 (brokers 2, 3), 3.9 (broker 1)". Empty
    where none said it.
    """
    brokers = [
        broker
        for node in observation.nodes
        if Role.BROKER in node.roles and isinstance(broker := broker_of(node), Broker)
    ]
    ids: dict[str, list[int]] = {}
    for broker in sorted(brokers, key=lambda one: (one.uses, not one.is_set, one.node.id)):
        text = str(broker.uses) if broker.is_set else f"{broker.uses} by default"
        ids.setdefault(text, []).append(broker.node.id)
    if len(ids) <= 1:
        return next(iter(ids), "")
    return ", ".join(f"{text} ({_brokers(broker_ids)})" for text, broker_ids in ids.items())


def _brokers(ids: list[int]) -> str:
    return f"{'broker' if len(ids) == 1 else 'brokers'} {shortened(ids)}"
