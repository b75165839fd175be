"""An old client over TLS and SASL, and a request that a broker forwards: counted and logged as any other, and named."""

from __future__ import annotations

import contextlib
import json
import struct
import time
from collections.abc import Iterator
from typing import Any

import pytest

from kafkafeatures.api.values import replace
from kafkafeatures.cli.shell.exit_codes import Exit
from kafkafeatures.cli.shell.main import main
from tests.e2e.clients.conftest import DEADLINE, log_all_requests
from tests.e2e.clients.old_clients import CLIENTS
from tests.e2e.clients.prometheus import exporter, scrape
from tests.e2e.rig.asking import asked
from tests.e2e.rig.cluster import INTERNAL, Cluster
from tests.e2e.rig.held import hold_topic
from tests.e2e.rig.listeners import USERS
from tests.e2e.rig.process import free_port
from tests.e2e.rig.releases import OLD

OLD_CLIENT = "librdkafka-1.0.0"
OLD_ADMIN = "old-admin"
CREATE_TOPICS = 19


def create_topic_by_version_1(port: int, client_id: str, topic: str) -> None:
    """Send CreateTopics v1, which Kafka 4.0 removed and a broker forwards to the controller, by hand."""
    header = struct.pack(">hhih", CREATE_TOPICS, 1, 1, len(client_id)) + client_id.encode()
    entry = struct.pack(">h", len(topic)) + topic.encode() + struct.pack(">ihii", 1, 1, 0, 0)
    reply = asked(port, header + struct.pack(">i", 1) + entry + struct.pack(">i?", 30_000, False))
    (error,) = struct.unpack(">h", reply[10 + len(topic) : 12 + len(topic)])
    assert error == 0, reply


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """What the check says of a broker that an old client of alice has used, and an old administrator."""
    folder = tmp_path_factory.mktemp("secured")
    port = free_port()
    cluster = Cluster(folder / "c", OLD, controllers=0, brokers=0, combined=1, kind="PLAIN")
    cluster.jvm = [exporter(folder, port)]
    with cluster:
        log_all_requests(cluster)
        hold_topic(cluster, "orders", {0: [1]})
        create_topic_by_version_1(cluster.brokers[0].ports[INTERNAL], OLD_ADMIN, "payments")
        login = {
            "security.protocol": "SASL_SSL",
            "sasl.mechanisms": "PLAIN",
            "ssl.ca.location": f"{cluster.root}/ca.pem",
        }
        login |= {"sasl.username": "alice", "sasl.password": USERS["alice"]}
        client = CLIENTS[OLD_CLIENT]()
        client = replace(client, environment=(*client.environment, ("LIBRDKAFKA_SETTINGS", json.dumps(login))))
        text, _ = client.start(cluster.bootstrap_servers, "orders").communicate(timeout=DEADLINE)
        assert "consumed" in text, text
        evidence = folder / "evidence" / "1" / f"{time.time():.0f}.prom"
        evidence.parent.mkdir(parents=True)
        evidence.write_bytes(scrape(port))
        log = str(cluster.brokers[0].log_file)
        assert main(["clients", "reduce", "--broker", "1", "--to", str(folder / "reduced"), log]) == Exit.DONE
        output = folder / "check.json"
        command = ["clients", "check", "--release", "4.1", "--window", "1h", "-o", "json"]
        command += ["--evidence", str(folder / "evidence"), "--request-logs", str(folder / "reduced")]
        command += ["--bootstrap-server", cluster.bootstrap_servers, "--config", str(cluster.client_config())]
        with output.open("w") as stdout, contextlib.redirect_stdout(stdout):
            assert main(command) == Exit.BLOCKED
        yield json.loads(output.read_text())


def test_counters_show_what_came_over_any_listener_and_what_was_forwarded(document: dict[str, Any]) -> None:
    uses = {(use["kind"], use["api"], use["version"]): use["brokers"] for use in document["uses"]}
    assert uses["Removed", "ListOffsets", 0] == [1]
    assert uses["Removed", "CreateTopics", 1] == [1]
    assert [broker["id"] for broker in document["brokers"]] == [1]


def test_the_client_is_named_with_the_user_that_it_logged_in_as(document: dict[str, Any]) -> None:
    (client,) = [sender for sender in document["senders"] if sender["clientId"] == OLD_CLIENT]
    assert (client["kind"], client["principal"], client["addresses"]) == ("Client", "User:alice", ["127.0.0.1"])
    assert {"api": "ListOffsets", "version": 0} in client["versions"]


def test_requests_that_a_broker_forwarded_are_distinguished_from_those_of_clients(document: dict[str, Any]) -> None:
    admins = [sender for sender in document["senders"] if sender["clientId"] == OLD_ADMIN]
    assert {(admin["kind"], admin["principal"], admin["requests"]) for admin in admins} == {
        ("Client", "User:ANONYMOUS", 1), ("Forwarded", "User:ANONYMOUS", 1),
    }  # fmt: skip
    assert {sender["clientId"] for sender in document["senders"]} == {OLD_CLIENT, OLD_ADMIN}
