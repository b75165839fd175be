"""Several documents in one command: which files are read, where each keeps its state, and what is refused."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkafeatures.api.status import Status
from kafkafeatures.cli.document.documents import connection_settings_of, documents_of, state_of
from kafkafeatures.cli.shell.exit_codes import CommandFailed, Exit
from kafkafeatures.cli.shell.main import main
from kafkafeatures.reconcile.file_store import FileStore
from tests.kafkafeatures.cli.test_main import run
from tests.kafkasim.test_process import heard, simulator

POD = "---\napiVersion: v1\nkind: Pod\nmetadata: {name: other}\n"


def document(name: str, server: str, more: str = "") -> str:
    return (
        f"---\napiVersion: kafkafeatures.dev/v1alpha1\nkind: KafkaFeatures\nmetadata: {{name: {name}}}\n"
        f'spec: {{cluster: {{bootstrapServers: "{server}"}}, features: {{levels: [{{name: group.version, level: 1}}]}}'
        f"{more}}}\n"
    )


def flags(*paths: Path, state: Path | None = None, config: Path | None = None) -> argparse.Namespace:
    folder = paths[0] if paths[0].is_dir() else paths[0].parent
    return argparse.Namespace(file=list(paths), state=state, config=config, controller_config=None, secrets_dir=folder)


def refused(*paths: Path, state: Path | None = None) -> CommandFailed:
    with pytest.raises(CommandFailed) as failed:
        documents_of(flags(*paths, state=state))
    return failed.value


def test_yaml_files_of_a_folder_are_read_in_order_and_documents_of_other_kinds_are_skipped_with_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "b.yaml").write_text(document("third", "c:1"))
    (tmp_path / "a.yml").write_text(document("first", "a:1") + POD + document("second", "b:1"))
    (tmp_path / "pod.yaml").write_text(POD)
    (tmp_path / "b.status.yaml").write_text("no document")
    (tmp_path / "readme.md").write_text("no document")
    (tmp_path / ".below.yaml").mkdir()
    assert [str(one) for one in documents_of(flags(tmp_path))] == ["default/first", "default/second", "default/third"]
    skipped = "skipped, as not of KafkaFeatures: Pod (other)"
    assert capsys.readouterr().err.splitlines() == [f"{tmp_path}/a.yml: {skipped}", f"{tmp_path}/pod.yaml: {skipped}"]


@pytest.mark.parametrize(("driver", "is_told"), [("", True), ("driver: None, ", False), ("driver: Manual, ", False)])
def test_stateful_sets_of_a_document_that_names_no_driver_are_said_to_have_no_effect(
    driver: str, is_told: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(document("first", "a:1", f", workload: {{{driver}statefulSet: {{brokers: [broker]}}}}"))
    documents_of(flags(file))
    told = "default/first: spec.workload.statefulSet has no effect without a driver, so no pod is restarted; set "
    assert capsys.readouterr().err.startswith(told) is is_told


def test_json_files_of_a_folder_are_read_and_its_subfolders_are_reported_as_skipped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.json").write_text(
        '{"apiVersion": "kafkafeatures.dev/v1alpha1", "kind": "KafkaFeatures", "metadata": {"name": "a"}, '
        '"spec": {"cluster": {"bootstrapServers": "a:1"}, "features": {"levels": []}}}'
    )
    for name in ("base", ".git", "overlays"):
        (tmp_path / name).mkdir()
    assert [str(one) for one in documents_of(flags(tmp_path))] == ["default/a"]
    output = f"{tmp_path}: its subfolders are not followed; name each with -f\n"
    assert capsys.readouterr().err == output


def test_each_error_of_a_document_has_a_line_with_program_and_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("apiVersion: kafkafeatures.dev/v1alpha1\nkind: KafkaFeatures\nmetadata: {}\nspec: {mode: Aply}\n")
    assert main(["plan", "-f", str(file)]) == Exit.USAGE
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3  # no name, an invalid mode, no cluster
    assert all(one.startswith(f"kafkafeatures: {file}: ") for one in lines)


def test_a_list_document_of_kubectl_is_read_as_its_items(tmp_path: Path) -> None:
    item = document("a", "a:1").removeprefix("---\n").replace("\n", "\n  ")
    (tmp_path / "list.yaml").write_text(f"apiVersion: v1\nkind: List\nitems:\n- {item}")
    assert [str(one) for one in documents_of(flags(tmp_path / "list.yaml"))] == ["default/a"]


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ((document("a", "a:1"), document("a", "b:1")), "1.yaml: default/a is in "),
        ((document("a", "a:1,b:1"), document("b", "b:1")), "default/b and default/a ("),
        ((document("a", "a:1") + document("b", "a:1"),), ") are of the same cluster; set mode to Observe in one"),
        ((document("a", "a:1"), document("b", "b:x")), "1.yaml: spec.cluster.bootstrapServers: invalid address 'b:x'"),
        ((document("a", "a:1"), document("b", "b:1", ", mode: X")), "1.yaml: spec.mode: invalid value 'X'"),
        ((document("a", "a:1") + "---\na: 1\n",), "0.yaml: document 2: apiVersion: required field is missing"),
        ((POD,), "0.yaml: no KafkaFeatures document in it, only Pod (other)"),
    ],
)
def test_invalid_documents_are_refused_before_any_is_applied(
    tmp_path: Path, texts: tuple[str, ...], message: str
) -> None:
    files = [tmp_path / f"{number}.yaml" for number in range(len(texts))]
    for file, text in zip(files, texts, strict=True):
        file.write_text(text)
    failed = refused(*files)
    assert message in str(failed)
    assert failed.code is Exit.USAGE


def test_a_second_document_of_a_cluster_is_accepted_in_mode_observe(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(document("a", "a:1") + document("b", "a:1", ", mode: Observe"))
    assert len(documents_of(flags(tmp_path))) == 2


def test_an_empty_folder_and_one_state_file_for_several_documents_are_refused(tmp_path: Path) -> None:
    assert str(refused(tmp_path)) == f"{tmp_path}: no KafkaFeatures document found; subfolders are not followed"
    (tmp_path / "a.yaml").write_text(document("a", "a:1") + document("b", "b:1"))
    failed = refused(tmp_path, state=tmp_path / "state.yaml")
    assert (str(failed).partition(";")[0], failed.code) == (
        "--state is the state file of one document, and there are 2",
        Exit.USAGE,
    )


async def test_a_state_file_belongs_to_its_document_when_other_documents_are_added_or_removed(tmp_path: Path) -> None:
    file, first, second = tmp_path / "levels.yaml", document("a", "a:1"), document("b", "b:1")

    async def states(text: str) -> list[str]:
        file.write_text(text)
        names = []
        for one in documents_of(flags(file)):
            state = state_of(flags(file), one)
            assert state is not None
            with FileStore(one.resource, state) as store:
                await store.write_status(Status(cluster_id=str(one)))
            names.append(state.name)
        return names

    assert await states(first) == ["levels.status.yaml"]
    assert await states(second + first) == ["levels.default.b.status.yaml", "levels.status.yaml"]
    assert await states(second) == ["levels.default.b.status.yaml"]


def test_a_client_config_replaces_the_credentials_of_the_document(tmp_path: Path) -> None:
    config, file = tmp_path / "client.properties", tmp_path / "a.yaml"
    config.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-256\n"
        'sasl.jaas.config=x required username="jane" password="secret";'
    )
    for more in ("", "tls: {caSecretRef: {name: ca}}, sasl: {mechanism: PLAIN, secretRef: {name: login}}, "):
        file.write_text(document("a", "a:1").replace("bootstrapServers", f"{more}bootstrapServers"))
        words = flags(file, config=config)
        (one,) = documents_of(words)
        found = connection_settings_of(words, one).settings
        assert [part.sasl.username for part in (found.brokers, found.controllers) if part.sasl] == ["jane", "jane"]
        assert found.brokers.tls is None
        assert found.bootstrap_servers[0].port == 1


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with simulator("--controllers", "1", "--brokers", "1", "--release", "4.2") as process:
        yield str(heard(process)["bootstrapServers"])


def test_each_document_has_its_own_result_and_the_command_the_worst_exit_code(server: str, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(document("a", "127.0.0.1:1") + document("b", server))
    same_cluster = server.replace("127.0.0.1", "localhost")  # by another address: only its id tells
    (tmp_path / "c.yaml").write_text(document("c", same_cluster))
    done = run("apply", "-f", str(tmp_path), "-o", "json")
    assert done.returncode == 4, done.stderr
    ready = {
        one["metadata"]["name"]: next(it["reason"] for it in one["status"]["conditions"] if it["type"] == "Ready")
        for one in json.loads(done.stdout)["items"]
    }
    assert ready == {"b": "InSync", "c": "DuplicateOwner"}
    lines = done.stderr.splitlines()
    assert '{"error": {"what": "connection refused", "where": "127.0.0.1:1", ' in done.stderr
    for heading in ("default/a", "default/b", "default/c"):
        assert any(line.startswith(f"{heading} (") for line in lines)
    assert lines[-1] == "default/c: blocked (4); default/a: unreachable (5); default/b: done (0)"
    state_files = sorted(path.name for path in tmp_path.glob("*.status.yaml"))
    assert state_files == ["a.default.a.status.yaml", "a.default.b.status.yaml", "c.status.yaml"]


def test_plans_of_several_documents_have_a_heading_each(server: str, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(document("a", server) + document("b", "127.0.0.1:1"))
    done = run("plan", "-f", str(tmp_path))
    assert done.returncode == 5
    assert done.stdout.startswith(f"default/a ({tmp_path}/a.yaml)\nmetadata.version 4.2-IV1")
    assert done.stdout.endswith(f"\ndefault/b ({tmp_path}/a.yaml)\n")
    assert "connection refused" in done.stderr
    assert list(tmp_path.glob("*.status.yaml")) == []


STRIMZI = """---
apiVersion: kafkafeatures.dev/v1alpha1
kind: KafkaFeatures
metadata: {name: NAME}
spec: {cluster: {strimzi: {name: my-cluster}}, features: {levels: [{name: group.version, level: 1}]}}
"""


def test_documents_of_a_cluster_that_strimzi_manages_are_refused_with_one_line(tmp_path: Path) -> None:
    file, config = tmp_path / "a.yaml", tmp_path / "client.properties"
    file.write_text(STRIMZI.replace("NAME", "a") + STRIMZI.replace("NAME", "b"))
    assert "default/b and default/a" in str(refused(file))
    config.write_text("security.protocol=PLAINTEXT\n")
    file.write_text(STRIMZI.replace("NAME", "a"))
    with pytest.raises(CommandFailed, match="leave out --config and --controller-config"):
        documents_of(flags(file, config=config))
