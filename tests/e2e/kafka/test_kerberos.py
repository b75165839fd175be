"""Kerberos: a real KDC, a real node with a GSSAPI listener, and the command line."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from kafkafeatures.environment import SYSTEM, Environment
from kafkafeatures.kafka.base.errors import AuthenticationFailed, Disconnected
from kafkafeatures.kafka.base.settings import Address, Kerberos, Sasl, Security, parse_addresses
from kafkafeatures.kafka.wire.addresses import AddressPolicy, networks
from kafkafeatures.kafka.wire.connection import connect
from kafkafeatures.kafka.wire.krb5_conf import read_krb5_conf
from kafkafeatures.kafka.wire.messages import ApiVersionsRequest
from kafkafeatures.kafka.wire.pem import Tls
from tests.e2e.kafka.cli import run
from tests.e2e.rig.cluster import CLIENT, LOOPBACK, Cluster
from tests.e2e.rig.kerberos import REALM, Realm
from tests.e2e.rig.releases import NEWEST

NODE = f"kafka/{LOOPBACK}"
MODULE = "com.sun.security.auth.module.Krb5LoginModule required"


@dataclass(frozen=True)
class Secured:
    """A cluster whose listener for clients has Kerberos, and the realm."""

    cluster: Cluster
    realm: Realm

    def config(self, jaas: str, *lines: str, protocol: str = "SASL_SSL") -> Path:
        """Kafka's own client properties with these options of the login module."""
        path = self.realm.folder / "client.properties"
        text = (
            f"security.protocol={protocol}\nsasl.mechanism=GSSAPI\nsasl.kerberos.service.name=kafka\n"
            f"ssl.truststore.type=PEM\nssl.truststore.location={self.cluster.root / 'ca.pem'}\n"
            f"sasl.jaas.config={MODULE} {jaas};\n"
        )
        path.write_text("\n".join((text, *lines)))
        return path

    def describe(self, jaas: str, *lines: str, **environment: str) -> subprocess.CompletedProcess[str]:
        config = self.config(jaas, *lines)
        return run(
            *("describe", "--bootstrap-server", self.cluster.bootstrap_servers, "--config", str(config)),
            environment={**self.realm.environment, **environment},
        )


def with_keytab(keytab: Path, principal: str = f"alice@{REALM}") -> str:
    return f'useKeyTab=true storeKey=true keyTab="{keytab}" principal="{principal}"'


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    root = tmp_path_factory.mktemp("kerberos")
    with Realm(root / "realm") as realm:
        for name in ("alice", NODE):
            realm.add(name)
        prefix = f"listener.name.{CLIENT.lower()}"
        cluster = Cluster(
            root / "kafka",
            NEWEST,
            controllers=1,
            brokers=1,
            kind="GSSAPI",
            controller_kind="PLAINTEXT",
            properties={
                f"{prefix}.sasl.enabled.mechanisms": "GSSAPI",
                f"{prefix}.sasl.kerberos.service.name": "kafka",
                f"{prefix}.gssapi.sasl.jaas.config": f"{MODULE} {with_keytab(realm.keytab(NODE), NODE)};",
                f"{prefix}.gssapi.connections.max.reauth.ms": "3000",
            },
        )
        cluster.jvm = [f"-Djava.security.krb5.conf={realm.conf}"]
        with cluster:
            yield Secured(cluster, realm)


def test_describe_logs_in_with_a_keytab(secured: Secured) -> None:
    done = secured.describe(with_keytab(secured.realm.keytab("alice")))
    assert done.returncode == 0, done.stderr
    print(done.stdout)
