"""`init` prints a document that matches a cluster, with comments for what a person has to do or may add."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from kafkafeatures.cli.document import init
from kafkafeatures.cli.shell.main import main
from kafkafeatures.core.facts.observation import Observation
from kafkafeatures.core.facts.readings import Failure, FailureKind
from tests.kafkafeatures.worlds import answer, node, observation

RANGES = {"metadata.version": (7, 27), "group.version": (0, 1), "share.version": (0, 1), "kraft.version": (0, 1)}
OF_4_1 = {**RANGES, "transaction.version": (0, 2), "eligible.leader.replicas.version": (0, 1)}
HOSTILE = {**RANGES, "share.version\nspec: {}": (0, 1)}
SEEN = observation(
    *(node(id_, said=answer(HOSTILE), written=HOSTILE) for id_ in (1, 2)),
    levels={"metadata.version": 27, "group.version": 1}, cluster_id="4L6g3nShT-eMCtK--X86sw",
)  # fmt: skip


def printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *flags: str, observed: Observation = SEEN
) -> str:
    def seen(_: object) -> Observation:
        return observed

    monkeypatch.setattr(init, "look", lambda _: None)
    monkeypatch.setattr(init, "on_cluster", seen)
    assert main(["init", "--bootstrap-server", "kafka:9092", *flags]) == 0
    return capsys.readouterr().out


def test_init_lists_levels_by_name_and_unfinalized_features_as_comments(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = printed(monkeypatch, capsys)
    levels = yaml.safe_load(text)["spec"]["features"]["levels"]
    assert levels == [{"name": "group.version", "level": 1}, {"name": "metadata.version", "level": "4.1-IV1"}]
    comments = [line for line in text.splitlines() if "#" in line]
    assert comments == [
        "    # Supported by every node, but off. Uncomment to turn on:",
        "    # - name: share.version",
        "    #   level: 1",
    ]


KRB5 = "com.sun.security.auth.module.Krb5LoginModule required useTicketCache=true;"
SCRAM = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="alice" password="secret-8f22";'


@pytest.mark.parametrize(
    ("mechanism", "jaas", "keys"),
    [
        ("SCRAM-SHA-512", SCRAM, "--from-literal=username=USERNAME --from-literal=password=PASSWORD"),
        ("GSSAPI", KRB5, "--from-literal=username=PRINCIPAL --from-file=keytab --from-file=krb5.conf"),
    ],
)
def test_init_prints_the_commands_that_create_the_secrets(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path,
    mechanism: str, jaas: str, keys: str,
) -> None:  # fmt: skip
    properties = tmp_path / "client.properties"
    properties.write_text(
        f"security.protocol=SASL_SSL\nsasl.mechanism={mechanism}\nsasl.jaas.config={jaas}\n"
        "sasl.kerberos.service.name=kafka\n"
    )
    text = printed(monkeypatch, capsys, "--config", str(properties))
    assert text.splitlines()[:3] == [
        "# It names Secrets; create them in the namespace of the resource:",
        f"#   kubectl create secret generic kafka-login {keys} -n NAMESPACE",
        "#   kubectl label secret kafka-login kafkafeatures.dev/credentials=true -n NAMESPACE",
    ]
    assert "secret-8f22" not in text


@pytest.mark.parametrize(
    ("controllers", "secret"),
    [(SCRAM, "kafka-login"), (SCRAM.replace("alice", "bob"), "kafka-controllers-login"),
     (SCRAM.replace("8f22", "9e33"), "kafka-controllers-login")],
)  # fmt: skip
def test_another_login_of_the_controllers_is_in_a_secret_of_its_own(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, controllers: str, secret: str
) -> None:
    for name, mechanism, jaas in (("brokers", "SCRAM-SHA-512", SCRAM), ("controllers", "PLAIN", controllers)):
        (tmp_path / name).write_text(
            f"security.protocol=SASL_SSL\nsasl.mechanism={mechanism}\nsasl.jaas.config={jaas}\n"
        )
    text = printed(
        monkeypatch, capsys, "--config", str(tmp_path / "brokers"), "--controller-config", str(tmp_path / "controllers")
    )
    cluster = yaml.safe_load(text)["spec"]["cluster"]
    assert cluster["sasl"] == {"mechanism": "SCRAM-SHA-512", "secretRef": {"name": "kafka-login"}}
    assert cluster["controllerListener"]["sasl"] == {"mechanism": "PLAIN", "secretRef": {"name": secret}}
    created = [line.split()[5] for line in text.splitlines() if "kubectl create secret" in line]
    assert created == list(dict.fromkeys(["kafka-login", secret]))
    assert f"generic {secret} --from-literal=username=USERNAME --from-literal=password=PASSWORD" in text


def test_init_says_beside_each_level_what_every_node_supports_and_how_to_raise_them_all(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    observed = observation(
        *(node(id_, said=answer(OF_4_1), written=OF_4_1) for id_ in (1, 2)),
        levels={"metadata.version": 25, "group.version": 1}, cluster_id="4L6g3nShT-eMCtK--X86sw",
    )  # fmt: skip
    text = printed(monkeypatch, capsys, observed=observed)
    assert '    # To raise them, replace levels with releaseVersion: "4.1", and set mode: Apply.' in text.splitlines()
    assert "      level: 4.0-IV3  # every node supports 4.1-IV1" in text.splitlines()
    assert "      level: 1" in text.splitlines()  # group.version is at its highest level
    assert yaml.safe_load(text)["spec"]["features"]["levels"][1]["level"] == "4.0-IV3"


def test_init_does_not_say_that_every_node_supports_a_level_if_one_is_unknown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    observed = observation(
        node(1, said=answer(RANGES), written=RANGES),
        node(2, said=Failure(FailureKind.UNREACHABLE, "2:9092", "no answer"), written=None),
        levels={"metadata.version": 25}, cluster_id="4L6g3nShT-eMCtK--X86sw",
    )  # fmt: skip
    assert "#" not in printed(monkeypatch, capsys, observed=observed)
