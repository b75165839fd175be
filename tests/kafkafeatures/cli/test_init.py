"""`init` prints a document that matches a cluster, with comments for what a person has to do or may add."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from kafkafeatures.cli.document import init
from kafkafeatures.cli.shell.main import main
from kafkafeatures.core.facts.observation import Observation
from tests.kafkafeatures.worlds import answer, node, observation

RANGES = {"metadata.version": (7, 27), "group.version": (0, 1), "share.version": (0, 1), "kraft.version": (0, 1)}
HOSTILE = {**RANGES, "share.version\nspec: {}": (0, 1)}
SEEN = observation(
    *(node(id_, said=answer(HOSTILE), written=HOSTILE) for id_ in (1, 2)),
    levels={"metadata.version": 27, "group.version": 1}, cluster_id="4L6g3nShT-eMCtK--X86sw",
)  # fmt: skip


def printed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *flags: str) -> str:
    def seen(_: object) -> Observation:
        return SEEN

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
        "    # Not finalized; remove the comment signs of a level to name it:",
        "    # - name: share.version",
        "    #   level: 1",
    ]


KRB5 = "com.sun.security.auth.module.Krb5LoginModule required useTicketCache=true;"
SCRAM = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="alice" password="secret-8f22";'


@pytest.mark.parametrize(
    ("mechanism", "jaas", "keys"),
    [("SCRAM-SHA-512", SCRAM, "username, password"), ("GSSAPI", KRB5, "username, keytab, krb5.conf")],
)
def test_init_names_the_secrets_to_create_with_their_keys(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path,
    mechanism: str, jaas: str, keys: str,
) -> None:  # fmt: skip
    properties = tmp_path / "client.properties"
    properties.write_text(
        f"security.protocol=SASL_SSL\nsasl.mechanism={mechanism}\nsasl.jaas.config={jaas}\n"
        "sasl.kerberos.service.name=kafka\n"
    )
    first, *_ = text = printed(monkeypatch, capsys, "--config", str(properties)).splitlines()
    assert first == (
        f"# It needs these Secrets, each with the label kafkafeatures.dev/credentials=true: kafka-login ({keys})"
    )
    assert "secret-8f22" not in "\n".join(text)
