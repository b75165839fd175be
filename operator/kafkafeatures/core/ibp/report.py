"""The inter.broker.protocol.version in use, for people and for `status.interBrokerProtocolVersion`.

Pure. Called by `core/ibp/state.py` and `cli/cluster/matrix.py`.
"""

from __future__ import annotations

from kafkafeatures.core.engine.blockers import shortened
from kafkafeatures.core.facts.observation import Observation
from kafkafeatures.core.facts.readings import Role
from kafkafeatures.core.ibp.progress import Broker, broker_of


def in_use(observation: Observation) -> str:
    """The version that all reporting brokers use, such as "3.9"; if they differ, each version with its brokers, such as
    "3.8 (brokers 2, 3), 3.9 (broker 1)". A version that a broker does not set is "3.8 by default". Empty if no broker
    reported its version.
    """
    brokers = [
        broker
        for node in observation.nodes
        if Role.BROKER in node.roles and isinstance(broker := broker_of(node), Broker)
    ]
    ids: dict[str, list[int]] = {}
    for broker in sorted(brokers, key=lambda broker: (broker.uses, not broker.is_set, broker.node.id)):
        text = str(broker.uses) if broker.is_set else f"{broker.uses} by default"
        ids.setdefault(text, []).append(broker.node.id)
    if len(ids) <= 1:
        return next(iter(ids), "")
    return ", ".join(f"{text} ({_brokers(broker_ids)})" for text, broker_ids in ids.items())


def _brokers(ids: list[int]) -> str:
    return f"{'broker' if len(ids) == 1 else 'brokers'} {shortened(ids)}"
