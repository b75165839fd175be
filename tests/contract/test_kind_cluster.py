"""The cluster that the tests create with kind leaves all other clusters alone.

A script stands in for `kind` here: it keeps a file for each cluster.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.kubernetes.on_node.conftest import OWN_NODE_ONLY
from tests.e2e.rig.kubernetes import images
from tests.e2e.rig.kubernetes import kind as module
from tests.e2e.rig.kubernetes.audit import AuditLog
from tests.e2e.rig.kubernetes.binaries import Failed
from tests.e2e.rig.kubernetes.kind import KindNode

_KIND = """#!/bin/sh
# Each cluster is a file. As with kind, a name that exists is refused, and deleting a missing cluster succeeds.
cd "$CLUSTERS" || exit 1
word="$1 $2"
config=""; name=""
while [ $# -gt 0 ]; do
    case "$1" in --config) config="$2";; --name) name="$2";; esac
    shift
done
[ -z "$name" ] && [ -n "$config" ] && name=$(sed -n 's/^name: //p' "$config")
case "$word" in
"get clusters") ls;;
"create cluster")
    [ -e "$name" ] && { echo "node(s) already exist for a cluster with the name \\"$name\\"" >&2; exit 1; }
    cat "$config" > "$name"
    [ -z "$BREAKS" ] || { echo broken >&2; exit 1; };;
"delete cluster") rm -f "${name:-kind}";;
esac
"""


class _Tools:
    def __init__(self, folder: Path, kubeconfig: Path, audit: AuditLog) -> None:
        self.kubeconfig = kubeconfig

    def wait_for_controllers(self) -> None:
        """There are none."""


@pytest.fixture
def clusters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder with the clusters. A person already has two: one with the name in kind-config.yaml, and one with the
    default name of kind.
    """
    programs, folder_of_clusters = tmp_path / "bin", tmp_path / "clusters"
    for folder in (programs, folder_of_clusters):
        folder.mkdir()
    for name, text in (("kind", _KIND), ("docker", "#!/bin/sh\necho 172.18.0.2\n")):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    monkeypatch.setenv("CLUSTERS", str(folder_of_clusters))
    monkeypatch.setenv("BREAKS", "")
    monkeypatch.setattr(module, "Tools", _Tools)
    monkeypatch.setattr(module, "KIND", "1")
    for name in (_config()["name"], "kind"):
        (folder_of_clusters / name).write_text("a person's")
    return folder_of_clusters


def _config(text: str | None = None) -> dict[str, Any]:
    config: dict[str, Any] = yaml.safe_load(text or module.CONFIG.read_text())
    return config


def names(clusters: Path) -> set[str]:
    return {path.name for path in clusters.iterdir()}


def test_existing_kind_clusters_remain_after_the_tests(clusters: Path, tmp_path: Path) -> None:
    before = names(clusters)
    with KindNode(tmp_path / "node") as node:
        assert names(clusters) == {*before, node.name}
    assert names(clusters) == before


def test_a_cluster_of_a_person_is_still_there_where_the_cluster_of_the_tests_cannot_be_made(
    clusters: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = names(clusters)
    monkeypatch.setenv("BREAKS", "yes")
    with pytest.raises(Failed, match="broken"), KindNode(tmp_path / "node"):
        pass
    assert names(clusters) == before


def test_a_cluster_of_a_person_with_the_name_of_the_cluster_of_the_tests_is_left_alone(
    clusters: Path, tmp_path: Path
) -> None:
    node = KindNode(tmp_path / "node")
    (clusters / node.name).write_text("a person's")
    with pytest.raises(RuntimeError, match="not made here"), node:
        pass
    assert (clusters / node.name).read_text() == "a person's"


def test_two_runs_at_once_use_two_kind_clusters(clusters: Path, tmp_path: Path) -> None:
    with KindNode(tmp_path / "a") as first:
        with KindNode(tmp_path / "b") as second:
            assert {first.name, second.name} < names(clusters)
        assert first.name in names(clusters)


def test_the_audit_log_of_the_kind_cluster_of_the_tests_has_a_path_of_its_own(clusters: Path, tmp_path: Path) -> None:
    with KindNode(tmp_path / "node") as node:
        of_the_tests = _config((clusters / node.name).read_text())
    of_the_file = _config()
    mounts, in_the_file = (
        [mount["hostPath"] for mount in config["nodes"][0]["extraMounts"]] for config in (of_the_tests, of_the_file)
    )
    assert [path for path in mounts if path not in in_the_file] == [str(tmp_path / "node" / "audit")]
    assert of_the_tests["name"] != of_the_file["name"]


def test_tests_that_run_on_a_kind_cluster_ask_only_for_what_it_has() -> None:
    """mypy holds a module to `AnyNode` once it does not name the rig's own node."""
    folder = module.ROOT / "tests/e2e/kubernetes/on_node"
    on_kind = {path for path in folder.glob("*.py") if path.name not in OWN_NODE_ONLY} - {folder / "conftest.py"}
    assert len(on_kind) >= 2
    assert [path.name for path in on_kind if "rig.kubernetes.node import" in path.read_text()] == []
    assert all((folder / name).exists() for name in OWN_NODE_ONLY)


def test_an_archive_of_an_image_is_there_whole_or_not_at_all(
    clusters: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = '#!/bin/sh\n[ "$1" = save ] || exit 0\necho half > "${3#--output=}"\nexit 1\n'
    (tmp_path / "bin" / "docker").write_text(script)
    monkeypatch.setattr(images, "KIND", "1")
    archive = tmp_path / "image.tar"
    with pytest.raises(Failed):
        images.build_image("localhost/rig/half:1", tmp_path, archive=archive)
    assert not archive.exists()
