"""Sources of a command's connection: their order, profiles, and errors that name the source."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from kafkafeatures.cli.cluster.connect import add_connection_flags, flags_of, settings_from_flags
from kafkafeatures.cli.shell.exit_codes import CommandFailed, Exit
from kafkafeatures.cli.shell.main import main
from tests.e2e.rig.certificates import Certificates

SERVER, CONFIG, PROFILE = "KAFKAFEATURES_BOOTSTRAP_SERVER", "KAFKAFEATURES_CONFIG", "KAFKAFEATURES_PROFILE"
DOCUMENT = """
apiVersion: kafkafeatures.dev/v1alpha1
kind: KafkaFeatures
metadata: {name: orders}
spec:
  cluster: {bootstrapServers: "of-document:1"}
  features: {releaseVersion: "4.2"}
"""
PROFILES = """
default-profile = "usual"
[profiles.usual]
bootstrap-server = "of-default:1"
[profiles.secured]
bootstrap-server = "of-profile:1"
config = "secured.properties"
[profiles.indirect]
config = "secured.properties"
"""


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The working directory. Profiles are in `kafkafeatures/config.toml` there; no variable is set."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    for variable in (SERVER, CONFIG, PROFILE):
        monkeypatch.delenv(variable, raising=False)
    (tmp_path / "kafkafeatures").mkdir()
    (tmp_path / "kafkafeatures" / "secured.properties").write_text("bootstrap.servers=of-properties:1\n")
    (tmp_path / "client.properties").write_text("bootstrap.servers=of-properties:1\n")
    (tmp_path / "plain.properties").write_text("")
    (tmp_path / "levels.yaml").write_text(DOCUMENT)
    return tmp_path


def write_profiles(folder: Path, text: str = PROFILES) -> None:
    (folder / "kafkafeatures" / "config.toml").write_text(text)


def connection(*flags: str) -> tuple[str, argparse.Namespace]:
    """The addresses that the command connects to first, and its arguments."""
    parser = argparse.ArgumentParser()
    add_connection_flags(parser, takes_document=True)
    arguments = parser.parse_args(flags)
    settings = settings_from_flags(arguments)
    return ",".join(map(str, (*settings.bootstrap_servers, *settings.bootstrap_controllers))), arguments


@pytest.mark.parametrize(
    ("flags", "variables", "address", "source"),
    [
        ("--bootstrap-server of-flag:1", {SERVER: "of-variable:1"}, "of-flag:1", ""),
        ("--bootstrap-controller of-flag:1", {SERVER: "of-variable:1"}, "of-flag:1", ""),
        ("--bootstrap-server of-flag:1", {CONFIG: "client.properties"}, "of-flag:1", CONFIG),
        ("-f levels.yaml", {SERVER: "of-variable:1", CONFIG: "/nowhere"}, "of-document:1", "spec.cluster of levels"),
        ("--profile secured", {SERVER: "of-variable:1", CONFIG: "/nowhere"}, "of-profile:1", "profile secured in"),
        ("--profile indirect", {SERVER: "of-variable:1"}, "of-properties:1", "profile indirect in"),
        ("", {SERVER: "of-variable:1"}, "of-variable:1", SERVER),
        ("--config client.properties", {SERVER: "of-variable:1"}, "of-properties:1", ""),
        ("--config plain.properties", {SERVER: "of-variable:1"}, "of-variable:1", SERVER),
        ("", {SERVER: "of-variable:1", CONFIG: "client.properties"}, "of-variable:1", f"{SERVER} and {CONFIG}"),
        ("", {CONFIG: "client.properties"}, "of-properties:1", CONFIG),
        ("--config client.properties", {}, "of-properties:1", ""),
        ("", {}, "of-default:1", "profile usual in"),
        ("", {SERVER: "", CONFIG: "", PROFILE: ""}, "of-default:1", "profile usual in"),
        ("", {PROFILE: "secured"}, "of-profile:1", "profile secured in"),
        ("--profile indirect", {PROFILE: "secured"}, "of-properties:1", "profile indirect in"),
        ("--bootstrap-server of-flag:1", {PROFILE: "secured"}, "of-flag:1", ""),
        ("--config client.properties", {PROFILE: "secured"}, "of-properties:1", ""),
        ("-f levels.yaml", {PROFILE: "secured"}, "of-document:1", "spec.cluster of levels"),
    ],
)
def test_flags_count_before_the_environment_and_that_before_the_default_profile(
    flags: str, variables: dict[str, str], address: str, source: str, monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    write_profiles(folder)
    for variable, value in variables.items():
        monkeypatch.setenv(variable, value)
    addresses, arguments = connection(*flags.split())
    assert addresses == address
    assert arguments.connection_source.startswith(source)
    assert bool(arguments.connection_source) == bool(source)


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({PROFILE: "prod"}, rf"there is no profile 'prod' \({PROFILE}\); its profiles are usual, secured, indirect"),
        ({PROFILE: "secured", SERVER: "a:1"}, f"{PROFILE} and {SERVER} are both set; unset one, or use flags"),
        ({PROFILE: "secured", CONFIG: "client.properties"}, f"{PROFILE} and {CONFIG} are both set"),
    ],
)
def test_variables_that_name_no_cluster_or_two_are_refused(
    variables: dict[str, str], message: str, monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    write_profiles(folder)
    for variable, value in variables.items():
        monkeypatch.setenv(variable, value)
    with pytest.raises(CommandFailed, match=message) as failed:
        connection()
    assert failed.value.code == Exit.USAGE


@pytest.mark.parametrize("value", ["", " "])
@pytest.mark.parametrize("flag", ["--bootstrap-server", "--bootstrap-controller", "--profile"])
def test_an_empty_flag_is_refused_and_does_not_stand_for_the_default_profile(
    flag: str, value: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_profiles(folder)
    with pytest.raises(SystemExit):
        connection(flag, value)
    assert f"argument {flag}: the value is empty; if it is that of a shell variable, set" in capsys.readouterr().err


def test_credentials_of_a_profile_are_not_used_for_an_address_from_elsewhere(folder: Path) -> None:
    write_profiles(folder, PROFILES.replace('"usual"', '"secured"'))
    assert connection("--bootstrap-server", "other:1")[1].config is None
    with pytest.raises(CommandFailed, match="--profile and --bootstrap-server cannot be combined") as refused:
        connection("--profile", "secured", "--bootstrap-server", "other:1")
    assert refused.value.code == Exit.USAGE


@pytest.mark.parametrize(
    ("flags", "copied"),
    [
        ("--profile secured", "--bootstrap-server of-profile:1 --config {folder}/kafkafeatures/secured.properties"),
        ("-f levels.yaml --secrets-dir keys", "-f levels.yaml --secrets-dir keys"),
        ("-f levels.yaml --config plain.properties --request-timeout 60",
         "-f levels.yaml --config plain.properties --request-timeout 60"),
        ("", "--bootstrap-server of-variable:1 --config plain.properties"),
    ],
)  # fmt: skip
def test_flags_to_copy_have_the_connection_that_was_used(
    flags: str, copied: str, monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    write_profiles(folder)
    monkeypatch.setenv(SERVER, "of-variable:1")
    monkeypatch.setenv(CONFIG, "plain.properties")
    assert flags_of(connection(*flags.split())[1]) == copied.format(folder=folder)


@pytest.mark.parametrize(
    ("profiles", "flags", "message"),
    [
        ("", "--profile prod", "config.toml: there is no profile 'prod'; write it there, as [profiles.prod]"),
        (PROFILES, "--profile prod", "there is no profile 'prod'; its profiles are usual, secured, indirect"),
        ('default-profile = "prod"', "", "there is no profile 'prod' (default-profile); write it"),
        ("default-profile = 1", "", "default-profile: expected the name of a profile in quotes"),
        ("yes = true", "", "unknown key 'yes'; valid keys: default-profile, profiles"),
        ("[profiles.a]\nyes = true", "--profile a", "profiles.a: unknown key 'yes'; valid keys: bootstrap-server"),
        ("[profiles.a]\napprove = 'x'", "--profile a", "profiles.a: unknown key 'approve'"),
        ("[profiles.a]\nconfig = 1", "--profile a", "profiles.a.config: expected a text in quotes"),
        ("[profiles.a]", "--profile a", "config.toml names none"),
        ("[profiles]\na = 'b:1'", "--profile a", "profiles.a: expected a table, such as [profiles.a]"),
        ("profiles = 1", "--profile a", "profiles: expected tables"),
        ("[profiles", "", "config.toml: invalid TOML"),
        (
            "[profiles.a]\nbootstrap-server = 'b'",
            "--profile a",
            "expected host:port (profile a in",
        ),
        ("", "-f levels.yaml --bootstrap-server a:1", "-f and --bootstrap-server cannot be combined: the document"),
        ("", "-f levels.yaml --profile a", "-f and --profile cannot be combined"),
        ("", "-f levels.yaml -f levels.yaml", "-f is given 2 times; this command is about one cluster"),
        ("", "-f - --config -", "cannot both be stdin"),
        (PROFILES, "--controller-config plain.properties", "no cluster given; use --bootstrap-server"),
        ("", "", "--profile NAME, KAFKAFEATURES_BOOTSTRAP_SERVER, or bootstrap.servers in --config FILE"),
    ],
)
def test_a_connection_that_cannot_be_used_is_one_line_with_the_code_of_wrong_usage(
    profiles: str, flags: str, message: str, folder: Path
) -> None:
    if profiles:
        write_profiles(folder, profiles)
    with pytest.raises(CommandFailed) as failed:
        connection(*flags.split())
    assert message in str(failed.value)
    assert "\n" not in str(failed.value)
    assert failed.value.code == Exit.USAGE


def test_an_error_of_the_connection_names_its_source(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    write_profiles(folder, "[profiles.a]\nbootstrap-server = '127.0.0.1:1'")
    assert main(["describe", "--profile", "a"]) == Exit.UNREACHABLE
    source = f"the connection is that of profile a in {folder}/kafkafeatures/config.toml"
    assert capsys.readouterr().err.endswith(f"connection refused; check host, port and that the node runs; {source}\n")
    monkeypatch.setenv(SERVER, "127.0.0.1:1")
    assert main(["check", "-o", "json"]) == Exit.UNREACHABLE
    assert f'that the node runs; the connection is that of {SERVER}", "exitCode": 5' in capsys.readouterr().err
    assert main(["describe", "--bootstrap-server", "127.0.0.1:1"]) == Exit.UNREACHABLE
    assert "the connection is that of" not in capsys.readouterr().err


def test_an_api_server_that_is_away_is_not_said_to_be_of_the_profile(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_profiles(folder)
    clusters = "clusters: [{name: a, cluster: {server: 'http://127.0.0.1:1'}}]\nusers: [{name: a, user: {}}]\n"
    contexts = "contexts: [{name: a, context: {cluster: a, user: a}}]\ncurrent-context: a\n"
    (folder / "kubeconfig").write_text(f"apiVersion: v1\nkind: Config\n{clusters}{contexts}")
    monkeypatch.setenv("KUBECONFIG", str(folder / "kubeconfig"))
    assert main(["serve", "orders", "--profile", "secured"]) == Exit.UNREACHABLE
    failure = capsys.readouterr().err
    assert "the API server http://127.0.0.1:1 cannot be reached" in failure
    assert "profile" not in failure


@pytest.mark.parametrize(
    "words",
    ["upgrade --release 4.2 --yes", "downgrade --feature group.version=0 --yes", "unregister --broker 4",
     "clients evidence start --all --level info", "clients evidence stop"],
)  # fmt: skip
def test_a_command_that_changes_the_cluster_says_first_which_one(
    words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words.split(), "--bootstrap-server", "127.0.0.1:1"]) == Exit.UNREACHABLE
    assert capsys.readouterr().err.startswith("cluster at 127.0.0.1:1\n")
    monkeypatch.setenv(SERVER, "127.0.0.1:1")
    assert main(words.split()) == Exit.UNREACHABLE
    assert capsys.readouterr().err.startswith(f"cluster at 127.0.0.1:1; the connection is that of {SERVER}\n")


LOGIN = (
    "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-256\nsasl.jaas.config="
    'org.apache.kafka.common.security.scram.ScramLoginModule required username="ann" password="of-ann";\n'
)
TRUST = "security.protocol=SSL\nssl.truststore.location=ca.pem\n"
CLIENT_KEY = f"{TRUST}ssl.keystore.location=client.pem\n"


def test_apply_says_first_which_cluster_it_changes_and_as_which_user(
    capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    (folder / "levels.yaml").write_text(DOCUMENT.replace("of-document:1", "127.0.0.1:1"))
    (folder / "login.properties").write_text(LOGIN)
    assert main(["apply", "-f", "levels.yaml"]) == Exit.UNREACHABLE
    first = "cluster at 127.0.0.1:1; the connection is that of spec.cluster of levels.yaml\n"
    assert capsys.readouterr().err.startswith(first)
    assert main(["apply", "-f", "levels.yaml", "--config", "login.properties"]) == Exit.UNREACHABLE
    first = (
        "cluster at 127.0.0.1:1, as user ann; the connection is that of spec.cluster of levels.yaml and login.proper"
    )
    assert capsys.readouterr().err.startswith(first)


@pytest.mark.parametrize("flag", ["--bootstrap-server", "--bootstrap-controller"])
@pytest.mark.parametrize("credentials", [LOGIN, CLIENT_KEY], ids=["login", "client key"])
def test_credentials_of_the_environment_are_not_used_for_an_address_that_their_file_does_not_name(
    credentials: str, flag: str, monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    monkeypatch.setenv(CONFIG, "my login")
    certificates = Certificates()
    (folder / "ca.pem").write_text(certificates.ca)
    (folder / "client.pem").write_text("".join(certificates.client("ann")))
    own = "Own:1, own:2, [::1]:1, a.kafka.svc.cluster.local:1"
    (folder / "my login").write_text(f"bootstrap.servers={own}\nbootstrap.controllers=own:3\n{credentials}")
    with pytest.raises(CommandFailed) as refused:
        connection(flag, "own:1,other:1")
    assert str(refused.value) == (
        f"other:1 is not among the addresses in 'my login' ({CONFIG}), so its credentials are not used there; add "
        "--config 'my login' to use them, or the --config of that cluster"
    )
    for other in ("own:9092", "own.:1", "own.example:1", "[::2]:1", "a.kafka.svc.other.example:1"):
        with pytest.raises(CommandFailed, match="is not among the addresses"):
            connection(flag, other)
    assert refused.value.code == Exit.USAGE
    assert connection(flag, "other:1", "--config", "my login")[0] == "other:1"
    for address in ("own:2", "OWN:2", "own:3", "[::1]:1"):
        assert connection(flag, address)[0].lower() == address.lower()
    for free in (credentials, f"bootstrap.servers={own}\n{TRUST}"):
        (folder / "my login").write_text(free)
        assert connection(flag, "other:1")[0] == "other:1"


@pytest.mark.parametrize("command", ["describe", "init"])
@pytest.mark.parametrize("flag", ["--profile", "--controller-config", "--bootstrap-server", "--config"])
def test_a_flag_that_has_no_effect_beside_strimzi_is_refused_by_name(
    command: str, flag: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, "--strimzi", "orders", flag, "prod"]) == Exit.USAGE
    assert capsys.readouterr().err == f"kafkafeatures: --strimzi finds the cluster; give it without {flag}\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (DOCUMENT + "---" + DOCUMENT.replace("orders", "bills"), "2 KafkaFeatures documents in it; this command"),
        ("{apiVersion: v1, kind: Secret}", "0 KafkaFeatures documents in it"),
        (DOCUMENT.replace("of-document:1", "nonsense"), "spec.cluster.bootstrapServers: invalid address 'nonsense'"),
        (DOCUMENT.replace('"of-document:1"', 'a:1, tls: {caSecretRef: {name: ca}}'), "--secrets-dir"),
    ],
)  # fmt: skip
def test_a_document_that_names_no_single_cluster_is_refused(text: str, message: str, folder: Path) -> None:
    (folder / "levels.yaml").write_text(text)
    with pytest.raises(CommandFailed, match=r"levels\.yaml|--secrets-dir") as failed:
        connection("-f", "levels.yaml")
    assert message in str(failed.value)
