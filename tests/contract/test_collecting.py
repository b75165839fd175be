"""The script that copies metadata logs, with a stand-in for kubectl that stays on this machine.

With real pods: tests/e2e/kubernetes/on_node/test_collecting.py.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.contract.collecting import collect

# `get pods` lists the folders beside it; `exec` runs the command, where POD is the folder. `cut`: bytes that arrive.
KUBECTL = """#!/bin/sh
cd "$(dirname "$0")/pods"
case "$*" in
  *" get pods "*) for one in *; do [ -e "$one" ] && echo "pod/$one"; done; exit 0;;
esac
export POD="$PWD/${4#pod/}"
shift 7
if [ -e "$POD/cut" ]; then "$@" | head -c "$(cat "$POD/cut")"; else "$@"; fi
"""
LOG = "__cluster_metadata-0"
SEGMENT = "00000000000000000000.log"


@pytest.fixture
def pods(tmp_path: Path) -> Path:
    (tmp_path / "kubectl").write_text(KUBECTL)
    (tmp_path / "kubectl").chmod(0o755)
    (tmp_path / "pods").mkdir()
    return tmp_path / "pods"


def node(pods: Path, name: str, number: int, cluster: str = "5L6g3nShT-eMCtK--X86sw") -> Path:
    """The log directory of a pod."""
    log = pods / name / "data" / LOG
    log.mkdir(parents=True)
    (log / SEGMENT).write_bytes(bytes(range(256)) * 100)
    (log.parent / "meta.properties").write_text(f"#\n#Mon\nnode.id={number}\nversion=1\ncluster.id={cluster}\n")
    return log.parent


def run(pods: Path, log_dir: str = '"$POD/data"') -> subprocess.CompletedProcess[str]:
    return collect(pods.parent, "orders", {"LOG_DIR": log_dir}, pods.parent)


def copies(pods: Path) -> dict[str, str]:
    out = pods.parent / "logs"
    return {
        str(one.relative_to(out)): oct(one.stat().st_mode & 0o777) for one in sorted(out.rglob("*")) if one.is_file()
    }


def leftovers(pods: Path) -> list[str]:
    return [one.name for one in pods.parent.glob("logs.*")]


def test_each_node_has_a_folder_of_its_id_that_only_its_owner_may_read(pods: Path) -> None:
    node(pods, "kafka-0", 101)
    node(pods, "kafka-1", 102)
    done = run(pods)
    assert (done.returncode, done.stderr) == (0, "")
    assert copies(pods) == {
        f"orders/{number}/{name}": "0o600" for number in (101, 102) for name in (f"{LOG}/{SEGMENT}", "meta.properties")
    }
    assert not leftovers(pods)


def test_a_copy_replaces_the_previous_copy_and_has_the_current_files(pods: Path) -> None:
    data = node(pods, "kafka-0", 101)
    run(pods)
    (data / LOG / SEGMENT).rename(data / LOG / "00000000000000000442.log")
    assert run(pods).returncode == 0
    assert list(copies(pods)) == [f"orders/101/{LOG}/00000000000000000442.log", "orders/101/meta.properties"]


@pytest.mark.parametrize("kept", [0, 512, 1024, 20_000, 26_624, 27_136])
def test_an_incomplete_copy_does_not_replace_the_previous_copy(pods: Path, kept: int) -> None:
    """What arrives may end exactly between two files, which tar does not notice: 26,624 bytes have the log whole."""
    node(pods, "kafka-0", 101)
    assert run(pods).returncode == 0
    before = copies(pods)
    (pods / "kafka-0" / "data" / LOG / SEGMENT).write_bytes(b"new" * 8533)
    (pods / "kafka-0" / "cut").write_text(str(kept))
    done = run(pods)
    assert done.returncode == 1
    assert "pod/kafka-0: not copied, an older copy is kept" in done.stderr
    assert copies(pods) == before
    assert (pods.parent / "logs" / "orders" / "101" / LOG / SEGMENT).read_bytes()[:3] == b"\0\1\2"
    assert not leftovers(pods)


def test_all_other_pods_are_copied_though_one_pod_has_no_log(pods: Path) -> None:
    (pods / "entity-operator").mkdir()
    node(pods, "kafka-0", 101)
    done = run(pods)
    assert done.returncode == 1
    assert "pod/entity-operator: not copied" in done.stderr
    assert len(copies(pods)) == 2


def test_a_pattern_selects_the_directory_that_has_the_log(pods: Path) -> None:
    data = node(pods, "kafka-0", 101)
    data.rename(data.parent / "data-1")
    (data.parent / "data-0").mkdir()
    assert run(pods, '"$POD"/data*').returncode == 0
    assert len(copies(pods)) == 2


def test_a_pod_with_two_logs_is_not_copied(pods: Path) -> None:
    data = node(pods, "kafka-0", 101)
    data.rename(data.parent / "data-1")
    node(pods, "kafka-0", 101)
    done = run(pods, '"$POD"/data*')
    assert done.returncode == 1
    assert "more than one log: " in done.stderr
    assert not copies(pods)


def test_a_pod_of_another_cluster_is_not_copied_into_the_folder_of_the_first(pods: Path) -> None:
    node(pods, "kafka-0", 101)
    node(pods, "other-0", 101, "AAAAAAAAAAAAAAAAAAAAAA")
    done = run(pods)
    assert done.returncode == 1
    assert "pod/other-0: not copied: it is of cluster AAAAAAAAAAAAAAAAAAAAAA" in done.stderr
    assert "cluster.id=5L6g3nShT-eMCtK--X86sw" in (pods.parent / "logs/orders/101/meta.properties").read_text()


def test_a_symbolic_link_is_not_copied(pods: Path) -> None:
    data = node(pods, "kafka-0", 101)
    (data / LOG / "00000000000000000001.log").symlink_to("/etc/passwd")
    assert run(pods).returncode == 0
    assert len(copies(pods)) == 2


def test_a_node_id_that_is_no_number_is_not_used_as_a_folder(pods: Path) -> None:
    data = node(pods, "kafka-0", 101)
    (data / "meta.properties").write_text("node.id=../../elsewhere\ncluster.id=5L6g3nShT-eMCtK--X86sw\n")
    done = run(pods)
    assert done.returncode == 1
    assert "not copied" in done.stderr
    assert not copies(pods)


def test_a_selector_that_matches_no_pod_is_named_by_the_error_message(pods: Path) -> None:
    done = run(pods)
    assert done.returncode == 1
    assert done.stderr == "no pods in kafka with app=kafka; set NAMESPACE and SELECTOR\n"
