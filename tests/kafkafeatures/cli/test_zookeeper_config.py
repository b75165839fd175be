"""Settings of the connection to ZooKeeper, read from the properties in the file of a broker."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkafeatures.cli.cluster.client_config import ConfigInvalid
from kafkafeatures.cli.cluster.zookeeper_config import access_of, read_access
from kafkafeatures.cli.shell.exit_codes import CommandFailed, Exit
from kafkafeatures.cli.shell.main import main

USER = {"zookeeper.digest.username": "kafka", "zookeeper.digest.password": "its-secret"}
SECURED = {"zookeeper.ssl.client.enable": "true"}


def test_only_the_digest_user_is_read_from_the_file_of_a_broker() -> None:
    rest = {"broker.id": "1", "zookeeper.connect": "zk:2181", "ssl.keystore.type": "JKS", "zookeeper.set.acl": "true"}
    tls, digest = read_access({**rest, **USER}, "f")
    assert tls is None
    assert digest is not None
    assert (digest.username, digest.password) == ("kafka", "its-secret")
    assert "its-secret" not in repr(digest)


def test_pem_files_give_the_tls_settings_of_zookeeper(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n")
    trust = {"zookeeper.ssl.truststore.location": str(tmp_path / "ca.pem"), "zookeeper.ssl.truststore.type": "PEM"}
    tls, _ = read_access({**SECURED, **trust}, "f")
    assert tls is not None
    assert tls.ca is not None
    assert tls.certificate is None


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"zookeeper.ssl.truststore.location": "x"}, "zookeeper.ssl.client.enable is not true"),
        ({**SECURED, "zookeeper.ssl.endpoint.identification.algorithm": ""}, "must be https"),
        ({**SECURED, "zookeeper.ssl.ocsp.enable": "true"}, "unsupported property zookeeper.ssl.ocsp.enable"),
        ({"zookeeper.sasl.client": "true"}, "unsupported property zookeeper.sasl.client"),
        ({"zookeeper.digest.user": "kafka"}, "unsupported property zookeeper.digest.user;"),
        ({"zookeeper.digest.username": "kafka"}, "belong together"),
        ({"zookeeper.digest.password": "its-secret"}, "belong together"),
    ],
)
def test_an_unsupported_zookeeper_property_is_refused(properties: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigInvalid) as refused:
        read_access(properties, "f")
    assert message in str(refused.value)
    assert "its-secret" not in str(refused.value)


def test_a_java_keystore_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "store.jks").write_bytes(b"\xfe\xed\xfe\xed")
    path = tmp_path / "zk.properties"
    path.write_text(f"zookeeper.ssl.client.enable=true\nzookeeper.ssl.keystore.location={tmp_path}/store.jks\n")
    with pytest.raises(CommandFailed) as refused:
        access_of(path)
    assert refused.value.code is Exit.USAGE
    assert f"{path}: zookeeper.ssl.keystore.location {tmp_path}/store.jks is not PEM" in str(refused.value)


KAFKA = ("--bootstrap-server", "127.0.0.1:1")


def test_a_missing_zookeeper_config_file_and_a_missing_ensemble_are_errors(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gone = str(tmp_path / "gone")
    assert main(["describe", "--zookeeper", "zk:2181", "--zookeeper-config", gone]) == Exit.USAGE
    assert "No such file" in capsys.readouterr().err
    assert main(["describe", "--zookeeper-config", gone]) == Exit.USAGE
    assert "give that as well" in capsys.readouterr().err


DOCUMENT = """
apiVersion: kafkafeatures.dev/v1alpha1
kind: KafkaFeatures
metadata: {name: NAME}
spec: {cluster: {bootstrapServers: "127.0.0.1:1"ENSEMBLE}}
"""


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("settings", "--zookeeper", "zk:2181", *KAFKA), Exit.USAGE, "use --to, or set spec.migration.desired"),
        (("settings", "-f", "ours.yaml"), Exit.USAGE, "use --to, or set spec.migration.desired"),
        (("compare", "--to", "DualWrite", "-f", "ours.yaml"), Exit.USAGE, "migration compare does not take --to"),
        (("compare", *KAFKA), Exit.USAGE, "no ensemble given; use --zookeeper, or -f FILE for cluster and ensemble"),
        (("compare", "-f", "ours.yaml", *KAFKA), Exit.USAGE, "-f and --bootstrap-server cannot be combined"),
        (
            ("compare", "-f", "ours.yaml", "-f", "two.yaml"),
            Exit.USAGE,
            "2 documents found; migration is about one cluster",
        ),
        (("compare", "-f", "two.yaml"), Exit.USAGE, "two.yaml: spec.cluster.zookeeper is not set"),
        (("compare", "-f", "gone.yaml"), Exit.USAGE, "gone.yaml: No such file"),
    ],
)
def test_a_migration_command_without_one_cluster_one_ensemble_and_its_target_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    words: tuple[str, ...], code: Exit, message: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    ensemble = ', zookeeper: {connect: "127.0.0.1:1/kafka"}'
    Path("ours.yaml").write_text(DOCUMENT.replace("NAME", "ours").replace("ENSEMBLE", ensemble))
    Path("two.yaml").write_text(DOCUMENT.replace("NAME", "two").replace("ENSEMBLE", "").replace("1:1", "1:2"))
    assert main(["migration", *words]) == code
    assert message in capsys.readouterr().err
