"""Support bundles: what is read of a tar, a tar.gz or a zip, what is left alone, and what is refused."""

from __future__ import annotations

import gzip
import io
import json
import os
import random
import stat
import struct
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from kafkafeatures.cli.log import bundle as log_bundle
from kafkafeatures.cli.shell.exit_codes import Exit
from kafkafeatures.cli.shell.main import main
from tests.kraftlog.build import level, log
from tests.kraftlog.golden import CHANGES, KRAFT

FIRST = f"{0:020}.log"
NODE = "cluster/node-1/data"
FOLDER = "__cluster_metadata-0"
LOG = f"{NODE}/__cluster_metadata-0/{FIRST}"
SMALL = log([level("metadata.version", 9)])
Members = dict[str, bytes]


def node(name: str, source: Path = CHANGES) -> Members:
    """The files that a collector copies from a node: its log, and many others."""
    files = {f"{name}/__cluster_metadata-0/{one.name}": one.read_bytes() for one in sorted(source.parent.iterdir())}
    properties = {f"{name}/meta.properties": b"cluster.id=abc\nnode.id=3001\n"}
    return files | properties | {f"{name}/server.log": b"x" * 1000, f"{name}/t-0/{FIRST}": b"of a topic"}


def as_tar(path: Path, members: Members, *, packed: bool = False) -> Path:
    with tarfile.open(path, "w:gz" if packed else "w") as bundle:
        for name, content in members.items():
            about = tarfile.TarInfo(name)
            about.size = len(content)
            bundle.addfile(about, io.BytesIO(content))
    return path


def as_gzip(path: Path, members: Members) -> Path:
    return as_tar(path, members, packed=True)


def as_zip(path: Path, members: Members) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as bundle:
        for name, content in members.items():
            bundle.writestr(name, content)
    return path


FORMS = pytest.mark.parametrize("bundled", [as_tar, as_gzip, as_zip], ids=["tar", "tar.gz", "zip"])
Bundled = Callable[[Path, Members], Path]


def output_of(capsys: pytest.CaptureFixture[str], *words: str, code: Exit = Exit.DONE) -> str:
    assert main(list(words)) == code
    return capsys.readouterr().out


def refused(capsys: pytest.CaptureFixture[str], path: Path) -> str:
    """The line with which a command refuses the bundle."""
    assert main(["log", "verify", str(path)]) == Exit.USAGE
    streams = capsys.readouterr()
    assert streams.out == ""
    assert len(streams.err.splitlines()) == 1
    return streams.err


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterable[Path]:
    """The folder of temporary files, in which no file with a name may ever be."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield folder
    assert list(folder.iterdir()) == []


@FORMS
def test_every_command_reads_a_bundle_as_it_reads_the_directory(
    bundled: Bundled, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = bundled(tmp_path / "bundle", node(NODE))
    for words in (("state",), ("timeline",), ("ghosts",)):
        documents = [
            output_of(capsys, "log", *words, "-o", "json", str(one)).replace(
                f"{path}:{NODE}/__cluster_metadata-0", "HERE"
            )
            for one in (path, CHANGES.parent)
        ]
        here, there = (text.replace(str(CHANGES.parent), "HERE") for text in documents)
        assert here.replace('"abc"', "null").replace('"node": 3001', '"node": null') == there
    assert output_of(capsys, "log", "decode", "-o", "json", str(path)) == output_of(
        capsys, "log", "decode", "-o", "json", str(CHANGES)
    )
    document = json.loads(output_of(capsys, "describe", "--from", str(path), "-o", "json"))
    assert (document["clusterId"], len(document["nodes"])) == ("abc", 6)
    verified = output_of(capsys, "log", "verify", str(path)).splitlines()
    assert [line.split(": ")[0] for line in verified] == [
        f"{path}:{LOG}", f"{path}:{NODE}/__cluster_metadata-0/{442:020}-{9:010}.checkpoint",
    ]  # fmt: skip


@FORMS
def test_log_state_refuses_a_bundle_of_several_nodes_unless_one_node_is_given(
    bundled: Bundled, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = bundled(tmp_path / "bundle:1", node("one") | node("two", KRAFT))
    assert main(["log", "state", str(path)]) == Exit.USAGE
    names = [f"{path}:{name}/__cluster_metadata-0" for name in ("one", "two")]
    assert f"holds the metadata logs of 2 nodes; give one of them: {names[0]}, {names[1]}" in capsys.readouterr().err
    assert json.loads(output_of(capsys, "log", "state", "-o", "json", names[1]))["source"]["offset"] == 77
    assert main(["log", "state", f"{path}:three"]) == Exit.USAGE
    assert f"not a directory of the bundle with a metadata log; expected {names[0]}" in capsys.readouterr().err
    assert len(output_of(capsys, "log", "verify", str(path)).splitlines()) == 4


@FORMS
def test_a_bundle_without_a_metadata_log_is_refused(
    bundled: Bundled, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = bundled(tmp_path / "bundle", {"a/server.log": b"x", "a/meta.properties": b""})
    assert "no file of a metadata log is in this bundle" in refused(capsys, path)


@FORMS
def test_member_paths_of_a_bundle_cannot_leave_the_bundle(
    bundled: Bundled, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "here").mkdir()
    before = sorted(tmp_path.rglob("*"))
    out = {f"../{FIRST}": b"?", f"a/../../../{FOLDER}/{FIRST}": b"?", f"a/..//{FOLDER}/{FIRST}": b"?"}
    path = bundled(tmp_path / "here" / "bundle", {**out, f"/absolute/{FOLDER}/{FIRST}": SMALL})
    assert output_of(capsys, "log", "verify", str(path)).startswith(f"{path}:absolute/{FOLDER}/{FIRST}: ")
    assert sorted(tmp_path.rglob("*")) == sorted([*before, path])


def test_links_and_devices_in_a_bundle_are_ignored(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "bundle.tar"
    with tarfile.open(path, "w") as bundle:
        for number, kind in enumerate((tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE)):
            about = tarfile.TarInfo(f"{FOLDER}/{number:020}.log")
            about.type, about.linkname = kind, str(CHANGES)
            bundle.addfile(about)
    assert "no file of a metadata log is in this bundle" in refused(capsys, path)
    path = tmp_path / "bundle.zip"
    with zipfile.ZipFile(path, "w") as bundle:
        link = zipfile.ZipInfo(LOG)
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        bundle.writestr(link, str(CHANGES))
    assert "no file of a metadata log is in this bundle" in refused(capsys, path)


@FORMS
def test_the_first_of_two_members_with_the_same_name_is_read(
    bundled: Bundled, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = bundled(tmp_path / "bundle", {LOG: SMALL, f"./{LOG}": b"another", f"//{LOG}": b"another"})
    assert len(output_of(capsys, "log", "verify", str(path)).splitlines()) == 1


@FORMS
def test_a_bundle_with_too_many_members_is_refused(
    bundled: Bundled, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = bundled(tmp_path / "bundle", {f"{at}/{FOLDER}/{FIRST}": bytes(1000) for at in range(20)})
    monkeypatch.setattr(log_bundle, "MAX_KEPT", 20_000)
    assert main(["log", "verify", str(path)]) == Exit.DONE
    capsys.readouterr()
    monkeypatch.setattr(log_bundle, "MAX_KEPT", 19_999)
    assert "more than 19999 bytes of metadata logs in it; unpack it, and give the directory" in refused(capsys, path)
    monkeypatch.setattr(log_bundle, "MAX_MEMBERS", 19)
    monkeypatch.setattr(log_bundle, "MAX_KEPT", 20_000)
    assert "more than 19 members in it" in refused(capsys, path)


def test_a_decompression_bomb_in_a_bundle_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = as_gzip(tmp_path / "bundle", {"core": bytes(3_000_000), LOG: SMALL})
    assert main(["log", "verify", str(path)]) == Exit.DONE
    capsys.readouterr()
    monkeypatch.setattr(log_bundle, "MAX_INFLATED", 2_000_000)
    assert "more than 2000000 bytes in it" in refused(capsys, path)


def test_a_tar_header_with_a_huge_claimed_size_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for kind in (tarfile.GNUTYPE_LONGNAME, tarfile.XHDTYPE):
        about = tarfile.TarInfo("long")
        about.type, about.size = kind, 6 * 1024**3
        path = tmp_path / "bundle.tar.gz"
        path.write_bytes(gzip.compress(about.tobuf(tarfile.GNU_FORMAT)))
        assert "a header of 6442450944 bytes in it" in refused(capsys, path)


def test_a_bundle_with_thousands_of_nested_headers_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    about = tarfile.TarInfo("long")
    about.type, about.size = tarfile.GNUTYPE_LONGNAME, 10
    one = about.tobuf(tarfile.GNU_FORMAT) + b"a" * 10 + bytes(502)  # padded to a block of 512 bytes
    path = tmp_path / "bundle.tar"
    path.write_bytes(one * 5000)
    assert "the bundle cannot be read" in refused(capsys, path)


def test_zip_bundles_with_other_compression_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "bundle.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as bundle:
        bundle.writestr(LOG, SMALL)
    assert "compressed in another way than deflate" in refused(capsys, path)
    content = bytearray(as_zip(path, {LOG: SMALL}).read_bytes())
    content[content.index(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(content)
    assert "its members are encrypted" in refused(capsys, path)


@FORMS
def test_a_bundle_damaged_anywhere_gives_one_line_or_its_readable_content(
    bundled: Bundled, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content = bundled(tmp_path / "whole", {LOG: SMALL, f"{NODE}/meta.properties": b"node.id=1"}).read_bytes()
    chance = random.Random(7)
    path = tmp_path / "bundle"
    broken = [content[: chance.randrange(len(content))] for _ in range(100)]
    for _ in range(200):
        changed = bytearray(content)
        for _ in range(chance.randint(1, 4)):
            changed[chance.randrange(len(changed))] = chance.randrange(256)
        broken.append(bytes(changed))
    codes = set()
    for one in broken:
        path.write_bytes(one)
        codes.add(main(["log", "verify", str(path)]))
        err = capsys.readouterr().err
        assert "internal error" not in err
        assert len(err.splitlines()) <= 1
    assert codes <= {Exit.DONE, Exit.FAILED, Exit.USAGE}
    assert Exit.USAGE in codes


def test_a_zip_bundle_with_a_false_size_causes_no_internal_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content = bytearray(as_zip(tmp_path / "whole", {LOG: SMALL}).read_bytes())
    at = content.index(b"PK\x01\x02") + 24
    struct.pack_into("<I", content, at, 0xFFFFFFF0)
    path = tmp_path / "bundle.zip"
    path.write_bytes(content)
    assert main(["log", "verify", str(path)]) in (Exit.DONE, Exit.USAGE)
    assert "internal error" not in capsys.readouterr().err


def test_member_names_of_a_bundle_are_printed_without_control_characters(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = as_tar(tmp_path / "bundle", {f"\x1b[2J\u202e/{FOLDER}/{FIRST}": SMALL, f"\x1b[3J/{FOLDER}/{FIRST}": SMALL})
    for words in (("log", "verify"), ("log", "state"), ("describe", "--from")):
        main([*words, str(path)])
        streams = capsys.readouterr()
        assert all(one.isprintable() or one == "\n" for one in streams.out + streams.err)


def test_a_bundle_without_room_for_temporary_files_gives_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = as_tar(tmp_path / "bundle", {LOG: SMALL})
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    assert "No such file or directory" in refused(capsys, path)


def test_a_pipe_in_place_of_a_bundle_is_refused_without_waiting(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    os.mkfifo(tmp_path / "bundle.tar")
    assert "not a regular file" in refused(capsys, tmp_path / "bundle.tar")
