"""A resource in a file: its document, its Secrets, and its state file, locked and replaced atomically."""

from __future__ import annotations

import asyncio
import os
import stat
import subprocess
import sys
from base64 import b64encode
from pathlib import Path

import pytest
import yaml

from kafkafeatures.api.document import InvalidDocument
from kafkafeatures.api.status import Status
from kafkafeatures.core.resolve import wanted_of
from kafkafeatures.kafka.base.settings import Kerberos
from kafkafeatures.kafka.wire.krb5_conf import read_krb5_conf
from kafkafeatures.kube.secrets import secret_texts
from kafkafeatures.reconcile.credentials import CredentialsInvalid, Reference, material_of, secrets_in, settings_of
from kafkafeatures.reconcile.file_store import FileStore, StateHeld, StateUnreadable
from tests.e2e.rig.certificates import Certificates
from tests.kafkafeatures.documents import read_file

GOOD = """
apiVersion: kafkafeatures.dev/v1alpha1
kind: KafkaFeatures
metadata: {name: orders}
spec:
  cluster: {bootstrapServers: "a:9092,[::1]:9093"}
  features: {levels: [{name: metadata.version, level: "4.1"}, {name: group.version, level: 1}]}
"""


def document(folder: Path, text: str = GOOD) -> Path:
    path = folder / "levels.yaml"
    path.write_text(text)
    return path


def test_names_of_levels_are_read_as_numbers(tmp_path: Path) -> None:
    assert wanted_of(read_file(document(tmp_path))).levels == {"metadata.version": 27, "group.version": 1}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: [", "invalid YAML"),
        ("- a\n- b\n", "not a mapping"),
        (GOOD + "---\na: 1\n", "document 2: apiVersion: required field is missing"),
        ("", "the file is empty"),
        (GOOD.replace("kind: KafkaFeatures", "kind: KafkaFeatures\nkind: KafkaFeatures"), "is duplicated"),
        ("a: &x [1]\nb: *x\n", "aliases are not supported"),
        (GOOD.replace("bootstrapServers", "bootstrapServer"), "did you mean 'bootstrapServers'?"),
        (
            GOOD.replace('"4.1"', "4.10"),
            "invalid value 4.10; expected an integer from 0 to 32767, or for metadata.version",
        ),
        (GOOD.replace("levels: [", "releaseVersion: 4.10, levels: ["), 'write it in quotes: "4.10"'),
        (GOOD.replace('"4.1"', '"9.9"'), "unknown metadata.version '9.9'; use its number"),
        (GOOD.replace("level: 1}", "level: -1}"), "invalid value -1; expected an integer from 0 to 32767"),
        (GOOD.replace("level: 1}", "level: true}"), "an integer from 0 to 32767"),
        (GOOD.replace("group.version", "metadata.version"), "duplicate feature"),
        (GOOD.replace('bootstrapServers: "a:9092,[::1]:9093"', "clusterId: x"), "set bootstrapServers"),
        ("a: \x07", "invalid YAML: U+0007 at position 3 is not allowed; YAML is printable text in UTF-8"),
        (GOOD.replace("level: 1}", "level: 010}"), "expected an integer"),
        (GOOD.replace("level: 1}", "level: 1:30}"), "expected an integer"),
        (GOOD.replace("level: 1}", "level: !!bool foo}"), "does not match its tag"),
        (GOOD.replace("level: 1}", "level: !!timestamp abc}"), "invalid YAML"),
        (GOOD.replace("level: 1}", "level: !!int ''}"), "invalid YAML"),
        ("? !!set {a, b}\n: c\n", "invalid YAML"),
        ("[" * 5000, "nested too deeply"),
        (GOOD.replace("  cluster", "\tcluster"), "invalid YAML: found a tab; indent with spaces"),
        (
            GOOD.replace('{levels: [{name: metadata.version, level: "4.1"}, ', "{releaseVersion: '9.9', levels: ["),
            "spec.features.releaseVersion: unknown Kafka release '9.9'; name levels instead, or use a newer",
        ),
    ],
)
def test_an_error_in_a_document_is_reported_with_its_field(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(InvalidDocument) as caught:
        wanted_of(read_file(document(tmp_path, text)))
    assert words in str(caught.value)


def test_a_document_that_is_too_large_is_not_parsed(tmp_path: Path) -> None:
    with pytest.raises(InvalidDocument, match="at most 1048576"):
        read_file(document(tmp_path, "#" * 2_000_000))


def test_the_status_is_kept_in_its_file_and_the_generation_grows_with_the_spec(tmp_path: Path) -> None:
    state = tmp_path / "state.yaml"
    with FileStore(read_file(document(tmp_path)), state) as store:
        assert asyncio.run(store.read()).generation == 1
        asyncio.run(store.write_status(Status(cluster_id="x")))
    with FileStore(read_file(document(tmp_path)), state) as store:
        resource = asyncio.run(store.read())
        assert (resource.generation, resource.status) == (1, Status(cluster_id="x"))
    changed = document(tmp_path, GOOD.replace("level: 1}", "level: 0}"))
    with FileStore(read_file(changed), state) as store:
        assert asyncio.run(store.read()).generation == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["levels.yaml", "state.yaml", "state.yaml.lock"]


def test_a_restored_log_is_accepted_by_a_flag(tmp_path: Path) -> None:
    for accepted in ("", "abc@7"):
        with FileStore(read_file(document(tmp_path)), None, accepted_log=accepted) as store:
            assert asyncio.run(store.read()).desired.accepted_log == accepted


def test_a_locked_state_file_names_the_process_that_holds_it(tmp_path: Path) -> None:
    state = tmp_path / "state.yaml"
    resource = read_file(document(tmp_path))
    with FileStore(resource, state), pytest.raises(StateHeld, match=f"process {os.getpid()} on "):
        FileStore(resource, state).__enter__()
    with FileStore(resource, state):
        """Free again."""


def test_a_killed_process_does_not_hold_the_state_file(tmp_path: Path) -> None:
    path = document(tmp_path)
    code = (
        "import os, signal, sys\nfrom pathlib import Path\n"
        "from kafkafeatures.reconcile.file_store import FileStore\n"
        "from tests.kafkafeatures.documents import read_file\n"
        f"FileStore(read_file(Path({str(path)!r})), Path({str(tmp_path / 'state.yaml')!r})).__enter__()\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False)
    assert done.returncode == -9
    with FileStore(read_file(path), tmp_path / "state.yaml"):
        """Taken over."""


@pytest.mark.parametrize("text", ["not: ours", "[", "kind: KafkaFeatures\n", "!!timestamp x"])
def test_a_state_file_that_another_program_wrote_is_not_overwritten(tmp_path: Path, text: str) -> None:
    state = tmp_path / "state.yaml"
    state.write_text(text)
    with pytest.raises(StateUnreadable, match="is not a KafkaFeatures state file"):
        FileStore(read_file(document(tmp_path)), state).__enter__()
    assert state.read_text() == text


def test_a_state_file_without_a_namespace_matches_a_document_without_one(tmp_path: Path) -> None:
    state = tmp_path / "state.yaml"
    state.write_text("kind: KafkaFeatures\nmetadata: {name: payments}\nstatus: {}\n")
    with pytest.raises(StateUnreadable, match="belongs to default/payments, not to default/orders"):
        FileStore(read_file(document(tmp_path)), state).__enter__()


def test_a_state_file_of_another_resource_is_refused(tmp_path: Path) -> None:
    state = tmp_path / "state.yaml"
    with FileStore(read_file(document(tmp_path)), state) as store:
        asyncio.run(store.write_status(Status()))
    for other in ("name: payments", "name: orders, namespace: elsewhere"):
        changed = read_file(document(tmp_path, GOOD.replace("name: orders", other)))
        with pytest.raises(StateUnreadable, match=r"belongs to \S+/orders, not to \S+/(payments|orders)"):
            FileStore(changed, state).__enter__()
    assert yaml.safe_load(state.read_text())["metadata"]["name"] == "orders"


# --- credentials ---

SECURED = GOOD.replace(
    'bootstrapServers: "a:9092,[::1]:9093"',
    'bootstrapServers: "a:9092", tls: {caSecretRef: {name: ca}}, '
    "sasl: {mechanism: SCRAM-SHA-512, secretRef: {name: login}}",
)


def secret(folder: Path, name: str, **keys: str) -> None:
    (folder / name).mkdir(parents=True)
    for key, value in keys.items():
        (folder / name / key.replace("_", ".")).write_text(value)


def test_secrets_are_read_from_a_directory_per_secret_and_never_shown(tmp_path: Path) -> None:
    secret(tmp_path, "ca", ca_crt=Certificates().ca)
    secret(tmp_path, "login", username="alice\n", password="canary-5d2\n")
    settings = settings_of(read_file(document(tmp_path, SECURED)).spec.cluster, secrets_in(tmp_path))
    assert settings.brokers.sasl is not None
    assert (settings.brokers.sasl.username, settings.brokers.sasl.password) == ("alice", "canary-5d2")
    assert settings.controllers == settings.brokers
    assert settings.brokers.protocol == "SASL_SSL"
    assert "canary" not in repr(settings)


KERBEROS = SECURED.replace("SCRAM-SHA-512", "GSSAPI, username: alice@EXAMPLE.COM")
KRB5_CONF = "[libdefaults]\ndefault_realm = EXAMPLE.COM\n[realms]\nEXAMPLE.COM = {\nkdc = kdc.example.com\n}\n"
KEYTAB = b"\x05\x02\xff\xfe\x00canary-5d2\r\n\r"  # as a random key may end


def test_a_kerberos_login_has_a_keytab_which_is_no_text_and_a_krb5_conf(tmp_path: Path) -> None:
    secret(tmp_path, "ca", ca_crt=Certificates().ca)
    secret(tmp_path, "login", krb5_conf=KRB5_CONF, **{"service-name": "brokers\n"})
    (tmp_path / "login" / "keytab").write_bytes(KEYTAB)
    cluster = read_file(document(tmp_path, KERBEROS)).spec.cluster
    from_files = settings_of(cluster, secrets_in(tmp_path)).brokers.sasl
    data = {name: b64encode(text).decode() for name, text in (("keytab", KEYTAB), ("krb5.conf", KRB5_CONF.encode()))}
    material: dict[Reference, dict[str, str] | None] = {
        Reference("Secret", "ca"): {"ca.crt": Certificates().ca},
        Reference("Secret", "login"): secret_texts({"data": {**data, "service-name": b64encode(b"brokers").decode()}}),
    }
    assert from_files == settings_of(cluster, material_of(material)).brokers.sasl
    assert from_files is not None
    realms = read_krb5_conf(KRB5_CONF)
    assert from_files.kerberos == Kerberos("brokers", "alice@EXAMPLE.COM", KEYTAB, realms=realms)
    assert "canary" not in repr(from_files)


@pytest.mark.parametrize(
    ("key", "content", "message"),
    [
        ("krb5.conf", b"include /etc/krb5.conf", "the Secret login: krb5.conf: line 1: include is not supported"),
        ("krb5.conf", b"", r"the Secret login: krb5.conf: \[libdefaults\] has no default_realm"),
        ("krb5.conf", b"\xff", "login: the value of krb5.conf is not text"),
    ],
)
def test_a_krb5_conf_that_cannot_be_used_is_refused(tmp_path: Path, key: str, content: bytes, message: str) -> None:
    secret(tmp_path, "ca", ca_crt=Certificates().ca)
    secret(tmp_path, "login", keytab="x")
    (tmp_path / "login" / key).write_bytes(content)
    with pytest.raises(CredentialsInvalid, match=message):
        settings_of(read_file(document(tmp_path, KERBEROS)).spec.cluster, secrets_in(tmp_path))


def test_a_value_of_a_secret_that_is_not_text_is_refused_by_its_key() -> None:
    login = Reference("Secret", "login")
    read = material_of({login: secret_texts({"data": {"password": b64encode(b"canary\xff").decode()}})})
    with pytest.raises(CredentialsInvalid, match=r"^the Secret login: the value of password is not text$"):
        read(login, "password")


def test_certificates_of_several_keys_are_trusted_together(tmp_path: Path) -> None:
    """A certificate authority that is being replaced is under several keys."""
    current, former = Certificates().ca, Certificates().ca
    secret(tmp_path, "login", username="alice", password="canary-5d2")
    secret(tmp_path, "ca", ca_crt=current, **{"ca-2026_crt": former, "ca_password": "canary-7a1"})
    text = SECURED.replace("caSecretRef: {name: ca}", 'caSecretRef: {name: ca, key: "*.crt"}')
    tls = settings_of(read_file(document(tmp_path, text)).spec.cluster, secrets_in(tmp_path)).brokers.tls
    assert tls is not None
    assert tls.ca == f"{former.strip()}\n{current.strip()}"  # by the names of their keys


def test_a_cluster_that_strimzi_manages_is_refused_from_a_shell(tmp_path: Path) -> None:
    text = GOOD.replace('bootstrapServers: "a:9092,[::1]:9093"', "strimzi: {name: my-cluster}").replace(
        '{name: metadata.version, level: "4.1"}, ', ""
    )
    with pytest.raises(InvalidDocument, match="strimzi my-cluster: only the operator carries it out; kafkafeatures d"):
        settings_of(read_file(document(tmp_path, text)).spec.cluster, secrets_in(tmp_path))


@pytest.mark.parametrize(
    ("folder", "words"),
    [(None, "--secrets-dir"), ("nowhere", "nowhere/.* not found"), ("empty", "has no key")],
)
def test_a_missing_secret_is_reported_with_its_path(tmp_path: Path, folder: str | None, words: str) -> None:
    (tmp_path / "empty" / "ca").mkdir(parents=True)
    path = tmp_path / folder if folder else None
    with pytest.raises(CredentialsInvalid, match=words):
        settings_of(read_file(document(tmp_path, SECURED)).spec.cluster, secrets_in(path))


STATE = """kind: KafkaFeatures
metadata: {name: orders, generation: 1}
status: {}
"""


@pytest.mark.parametrize(
    "text",
    [
        STATE.replace("generation: 1", "generation: abc"),
        STATE.replace("generation: 1", "generation: null"),
        STATE.replace("status: {}", "status: foo"),
        STATE.replace("status: {}", "status: {history: 3}"),
        STATE.replace("status: {}", "status: {intents: 3}"),
        STATE.replace("status: {}", "status: {intent: {target: x, before: '0', after: '1'}}"),
        "kind: KafkaFeatures\nstatus: " + "[" * 5000 + "]" * 5000,
        STATE.replace("{name: orders, generation: 1}", "3"),
        STATE.replace("{name: orders, generation: 1}", "null"),
    ],
    ids=[
        "generation a text",
        "no generation",
        "status a text",
        "history a number",
        "intents a number",
        "incomplete intent",
        "nested too deeply",
        "metadata a number",
        "no metadata",
    ],
)
def test_an_invalid_state_file_is_reported_with_its_name(tmp_path: Path, text: str) -> None:
    state = tmp_path / "state.yaml"
    state.write_text(text)
    with pytest.raises(StateUnreadable, match=r"state\.yaml"), FileStore(read_file(document(tmp_path)), state):
        raise AssertionError("it was taken for a state")
    assert state.read_text() == text


def test_an_empty_state_file_is_an_error(tmp_path: Path) -> None:
    """A shell that redirects output into the state file has emptied it before the command starts."""
    state = tmp_path / "state.yaml"
    state.write_text("")
    with pytest.raises(StateUnreadable, match="is empty"), FileStore(read_file(document(tmp_path)), state):
        raise AssertionError("it was taken for a state")


def test_a_written_state_file_is_synced_with_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folders: list[bool] = []
    fsync = os.fsync

    def noted(descriptor: int) -> None:
        folders.append(stat.S_ISDIR(os.fstat(descriptor).st_mode))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    with FileStore(read_file(document(tmp_path)), tmp_path / "levels.status.yaml") as store:
        asyncio.run(store.write_status(Status(progress="looked")))
    assert folders == [False, True]  # first the file, then the folder, for the rename
