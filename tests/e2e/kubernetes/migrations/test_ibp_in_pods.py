"""The inter.broker.protocol.version of a Kafka on Kubernetes is raised: the test changes the template in Git, and the
operator restarts each broker once.
"""

from __future__ import annotations

import json
from collections import Counter

from kazoo.client import KazooClient

from kafkafeatures.core.facts.settings import IBP
from tests.e2e.kubernetes.migrations.migrating import NAME, MigratingResource, shown_by_tools
from tests.e2e.rig.kubernetes.migrating import CHROOT

BEGINS_WITH = "3.8"


def test_each_broker_is_restarted_once_for_the_protocol_version_in_git_though_the_operator_is_killed(
    migrating: MigratingResource, zookeeper: KazooClient
) -> None:
    kafka = migrating.pods
    before, brokers = shown_by_tools(kafka), kafka.pods_of("brokers")
    controller = kafka.node_ids[json.loads(zookeeper.get(f"{CHROOT}/controller")[0])["brokerid"]]
    migrating.kills = True
    migrating.wants_ibp("3.9")
    migrating.until_asked(f"set {IBP}=3.9 in Git")
    assert migrating.evicted == []

    kafka.raises("3.9")
    migrating.until_done(f"every broker uses {IBP} 3.9")
    assert Counter(migrating.evicted) == Counter(brokers)
    assert migrating.evicted[-1] == controller
    assert migrating.created == Counter(brokers)
    assert migrating.killed == len(migrating.evicted)
    assert migrating.status(NAME)["interBrokerProtocolVersion"] == "3.9"
    migrating.no_client_was_harmed()
    assert shown_by_tools(kafka) == before
