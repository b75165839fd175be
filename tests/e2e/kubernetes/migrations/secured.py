"""The manifests of the page about Kubernetes, with TLS, SASL and an authorizer by the lines of the page about all
clusters: what has passwords is in Secrets, and the certificates are in another one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tests.e2e.kubernetes.migrations.paged import PAGE, PagedPods
from tests.e2e.rig.certificates import Certificates
from tests.e2e.rig.kubernetes.node import Node

LINES = PAGE.with_name("migrate-to-kraft.md")
SECTION = re.compile(r"^## With TLS, SASL and an authorizer\n(?P<text>.*?)^## ", re.DOTALL | re.MULTILINE)
BLOCK = re.compile(r"(?:^    .*\n)+", re.MULTILINE)
KEY = re.compile(r"([a-z][\w.-]*)=")
PASSWORD = "secret-8f23"
STANDARD, OF_ZOOKEEPER = (
    f"authorizer.class.name={one}"
    for one in ("org.apache.kafka.metadata.authorizer.StandardAuthorizer", "kafka.security.authorizer.AclAuthorizer")
)
BEFORE = f"""listeners=INTERNAL://:9092
listener.security.protocol.map=INTERNAL:SASL_SSL
inter.broker.listener.name=INTERNAL
sasl.enabled.mechanisms=PLAIN
sasl.mechanism.inter.broker.protocol=PLAIN
listener.name.internal.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \\
  username="broker" password="..." user_broker="..." user_controller="..." user_kafkafeatures="...";
ssl.keystore.type=PEM
ssl.keystore.location=/etc/kafka/node.pem
ssl.truststore.type=PEM
ssl.truststore.location=/etc/kafka/ca.pem
{OF_ZOOKEEPER}
super.users=User:broker;User:controller;User:kafkafeatures
"""
"""Lines of a broker that accepts the users of the page, as the page asks for before the migration."""
CERTIFICATES = "certificates"
NAMES = ("*.brokers.kafka", "*.controllers.kafka", "*.controllers.kafka.svc.cluster.local")
CLIENT = """security.protocol=SASL_SSL
sasl.mechanism=PLAIN
sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required username="kafkafeatures" \\
  password="{password}";
ssl.truststore.type=PEM
ssl.truststore.location={ca}
"""


def lines_of_page() -> tuple[str, str]:
    """What the page adds to the file of a controller, and to that of a broker with the flag."""
    section = SECTION.search(LINES.read_text())
    assert section is not None
    of_controller, of_broker = (re.sub("^    ", "", one, flags=re.MULTILINE) for one in BLOCK.findall(section["text"]))
    return of_controller, of_broker


def with_lines(file: str, *added: str) -> str:
    """The file with these lines, each in place of the one that sets the same."""
    for lines in added:
        keys = KEY.findall("\n".join(re.findall(r"^[a-z].*", lines, re.MULTILINE)))
        for key in keys:
            file = re.sub(rf"^{re.escape(key)}=(?:.*\\\n)*.*\n", "", file, flags=re.MULTILINE)
        file += lines
    return file


class SecuredPods(PagedPods):
    """See the prologue."""

    kind = "Secret"

    def __init__(self, node: Node) -> None:
        super().__init__(node)
        self._certificates = Certificates(*NAMES)
        ca = node.folder / "ca.pem"
        ca.write_text(self._certificates.ca)
        self.client = CLIENT.format(password=PASSWORD, ca=ca)
        of_controller, of_broker = lines_of_page()
        added = {
            "brokers-zookeeper": (BEFORE,),
            "brokers-flag": (BEFORE, of_broker),
            "brokers-kraft": (BEFORE, of_broker, f"{STANDARD}\n"),
            "controllers-flag": (of_controller,),
        }
        for name, lines in added.items():
            self._secures(name, *lines)
        for name in ("brokers", "controllers"):
            self._mounts(self.objects["StatefulSet", name]["spec"]["template"]["spec"])
        self.objects["KafkaFeatures", "orders"]["spec"]["cluster"] |= {
            "tls": {"caSecretRef": {"name": "ca"}},
            "sasl": {"mechanism": "PLAIN", "secretRef": {"name": "login"}},
        }

    def volume_of(self, settings: str) -> dict[str, Any]:
        return {"name": "config", "secret": {"secretName": settings}}

    def data_of(self, settings: str) -> dict[str, str]:
        data: dict[str, str] = self.objects[self.kind, settings]["stringData"]
        return data

    def begin(self) -> None:
        labels = {"kafkafeatures.dev/credentials": "true"}
        files = {"node.pem": "".join(self._certificates.node), "ca.pem": self._certificates.ca}
        self.plane.apply(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}},
            self._secret(CERTIFICATES, files),
            self._secret("ca", {"ca.crt": self._certificates.ca}, labels),
            self._secret("login", {"username": "kafkafeatures", "password": PASSWORD}, labels),
        )
        super().begin()

    def _secret(self, name: str, data: Mapping[str, str], labels: Mapping[str, str] | None = None) -> dict[str, Any]:
        metadata = {"name": name, "namespace": self.namespace, "labels": dict(labels or {})}
        return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": dict(data)}

    def _secures(self, name: str, *lines: str) -> None:
        """A Secret in place of the ConfigMap."""
        data = self.objects.pop(("ConfigMap", name))["data"]
        data["server.properties"] = with_lines(data["server.properties"], *lines).replace('"..."', f'"{PASSWORD}"')
        data["start.sh"] = data["start.sh"].replace("=PLAINTEXT://", "=INTERNAL://")
        self.objects[self.kind, name] = self._secret(name, data)

    def _mounts(self, template: dict[str, Any]) -> None:
        for container in (*template["containers"], *template.get("initContainers", ())):
            container["volumeMounts"].append({"name": CERTIFICATES, "mountPath": "/etc/kafka"})
        (config,) = (one["configMap"]["name"] for one in template["volumes"])
        template["volumes"] = [
            self.volume_of(config),
            {"name": CERTIFICATES, "secret": {"secretName": CERTIFICATES}},
        ]
