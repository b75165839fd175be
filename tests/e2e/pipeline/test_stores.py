"""Inputs and tables in a real object store: the tables are the same as with folders, or an error is one line."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import pytest
from deltalake import DeltaTable

from featurelog import stores
from featurelog.delta import Output, OutputError, load
from featurelog.engine import OneCore, Outcome
from featurelog.layout import InputsError, Root
from featurelog.parts import EngineError, InputChangedError, PartReader, Task
from featurelog.run import Run, Settings, Summary
from kafkafeatures.cli.shell.exit_codes import Exit
from kafkafeatures.cli.shell.main import main
from kraftlog.files import DIRECTORY
from tests.e2e.pipeline import sparks
from tests.e2e.pipeline.settings import HEAP
from tests.e2e.rig.counting_proxy import counting_proxy
from tests.e2e.rig.s3 import CREDENTIALS, KEY, S3, SECRET, server
from tests.examples import compared
from tests.featurelog import evidence
from tests.featurelog.inputs import SEGMENT, derive, fleet, made_log, put, run, tables, texts
from tests.kafkasim.fleets import written


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3]:
    with server(tmp_path_factory.mktemp("s3")) as running:
        yield running


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    """Credentials in the environment; nothing that was opened with others is used again."""
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(stores, "_opened", {})


@pytest.fixture(scope="module")
def made(s3: S3, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fleet as a folder, its tables beside it, and the same in the bucket `fleet`."""
    folder = tmp_path_factory.mktemp("made")
    fleet(folder / "in")
    run([folder / "in"], folder / "out")
    s3.copy(folder / "in", "fleet/logs")
    return folder


@pytest.fixture
def bucket(s3: S3, request: pytest.FixtureRequest) -> str:
    """A bucket with one segment of one node, where a test may change it."""
    bucket = request.node.originalname.replace("_", "-")[-60:].strip("-")
    s3.system.create_dir(bucket)
    s3.put(segment(bucket), made_log(12))
    return str(bucket)


def segment(bucket: str) -> str:
    return f"{bucket}/orders/1/{DIRECTORY}/{SEGMENT}"


def run_from(uri: str, output: Path | str, engine: OneCore | None = None) -> Summary:
    return Run(Settings((uri,), str(output), piece=500, bytes_per_commit=1), derive, lambda: engine or OneCore())()


def test_a_run_on_a_bucket_writes_the_tables_of_a_run_on_the_same_folder(s3: S3, made: Path, tmp_path: Path) -> None:
    uri = s3.uri("fleet/logs")
    assert not run_from(uri, tmp_path).problems
    assert tables(tmp_path) == tables(made / "out")

    def never() -> OneCore:
        raise AssertionError("nothing is new, and yet something is read")

    assert Run(Settings((uri,), str(tmp_path)), derive, never)().files == 0


def test_a_run_on_spark_reads_a_bucket_into_the_same_tables(s3: S3, made: Path, tmp_path: Path) -> None:
    values = sparks.arguments([s3.uri("fleet/logs")], tmp_path / "out", "local[2]", HEAP, -1, None)
    summary = sparks.said(sparks.script("tests.e2e.pipeline.runs", *values, env=CREDENTIALS))
    assert not summary["problems"]
    assert tables(tmp_path / "out") == tables(made / "out")


def test_only_the_new_bytes_of_an_object_that_has_grown_are_read(s3: S3, bucket: str, tmp_path: Path) -> None:
    for batches in (12, 20):
        s3.put(segment(bucket), made_log(batches))
        put(tmp_path / "in", "orders", "1", SEGMENT, made_log(batches))
        read = run_from(s3.uri(bucket), tmp_path / "out").account["size"]
        run([tmp_path / "in"], tmp_path / "expected")
    assert read == len(made_log(20)) - len(made_log(12))
    assert tables(tmp_path / "out") == tables(tmp_path / "expected")


def test_of_an_object_that_has_grown_only_the_new_range_is_downloaded(s3: S3, bucket: str, tmp_path: Path) -> None:
    whole, before = made_log(20_000), made_log(19_900)
    with counting_proxy(s3.port) as proxy:
        downloaded = []
        for content in (before, whole):
            s3.put(segment(bucket), content)
            sent = proxy.sent
            settings = Settings((s3.uri(bucket).replace(str(s3.port), str(proxy.port)),), str(tmp_path / "out"))
            assert not Run(settings, derive)().problems
            downloaded.append(proxy.sent - sent)
    assert downloaded[0] > len(before), "the proxy counts"
    assert downloaded[1] < len(whole) - len(before) + _ANSWERS


_ANSWERS = 32 * 1024
"""Bytes of all answers without content: listings, and headers."""


class Meanwhile(OneCore):
    """An engine that calls `happens` when the parts are planned and not yet read."""

    def __init__(self, happens: Callable[[], None]) -> None:
        self._happens = happens

    def outcomes(self, tasks: Sequence[Task], output: str) -> Iterator[Outcome]:
        self._happens()
        return super().outcomes(tasks, output)


@pytest.mark.parametrize("batches", [11, 12, 20], ids=["shorter", "of the same size", "longer"])
def test_an_object_that_is_replaced_before_it_is_read_is_left_for_the_next_run(
    s3: S3, bucket: str, tmp_path: Path, batches: int
) -> None:
    other = bytearray(made_log(batches))
    other[-1] ^= 1
    s3.put(segment(bucket), made_log(12))
    summary = run_from(s3.uri(bucket), tmp_path, Meanwhile(lambda: s3.put(segment(bucket), bytes(other))))
    assert summary.problems == [f"orders/1/{SEGMENT}: replaced while it was read; run again"]
    assert summary.files == 0
    run_from(s3.uri(bucket), tmp_path)
    run_from(s3.uri(bucket), tmp_path / "again")
    assert tables(tmp_path) == tables(tmp_path / "again")


def test_an_object_that_is_deleted_before_it_is_read_is_a_named_problem(s3: S3, bucket: str, tmp_path: Path) -> None:
    summary = run_from(s3.uri(bucket), tmp_path, Meanwhile(lambda: s3.system.delete_file(segment(bucket))))
    assert summary.problems == [f"orders/1/{SEGMENT}: deleted since it was listed; run again"]


def test_no_piece_is_read_from_an_object_that_was_replaced(s3: S3, bucket: str, tmp_path: Path) -> None:
    tasks: list[Task] = []

    class Keeping(OneCore):
        def outcomes(self, planned: Sequence[Task], output: str) -> Iterator[Outcome]:
            tasks.extend(planned)
            return super().outcomes(planned, output)

    run_from(s3.uri(bucket), tmp_path, Keeping())
    rows = iter(PartReader(tasks[0]))
    next(rows)
    s3.put(segment(bucket), made_log(30))
    with pytest.raises(InputChangedError, match="replaced while it was read; run again"):
        list(rows)


def test_a_store_that_is_lost_ends_the_run_and_the_next_one_completes_it(s3: S3, made: Path, tmp_path: Path) -> None:
    groups = iter(range(9))

    def lost() -> None:
        if next(groups) == 2:
            s3.daemon.kill()

    try:
        with pytest.raises(EngineError, match=r"the store cannot be reached: .*; what was committed before is kept"):
            run_from(s3.uri("fleet/logs"), tmp_path, Meanwhile(lost))
    finally:
        s3.daemon.heal()
    assert load(str(tmp_path))[0].sequence == 2  # the store is lost in the third group; the first two are committed
    run_from(s3.uri("fleet/logs"), tmp_path)
    assert tables(tmp_path) == tables(made / "out")


def test_a_run_ends_with_an_error_where_the_store_does_not_answer(
    s3: S3, made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stores, "SILENT_SECONDS", 1)
    monkeypatch.setattr(stores, "ATTEMPTS", 1)
    s3.daemon.freeze()
    try:
        with pytest.raises(InputsError, match="the store cannot be reached: curlCode: 28, Timeout was reached"):
            list(Root.of(s3.uri("fleet/logs")).nodes())
    finally:
        s3.daemon.thaw()


WRONG: dict[str, tuple[str, dict[str, str], str]] = {
    "bucket": ("nobody/logs", {}, "there is no such bucket"),
    "prefix": ("fleet/nothing", {}, "No such file or directory"),
    "secret": (
        "fleet/logs",
        {"AWS_SECRET_ACCESS_KEY": f"{SECRET}-not"},
        "access denied: the secret key is not that of",
    ),
    "key": ("fleet/logs", {"AWS_ACCESS_KEY_ID": "stranger"}, "access denied: the access key is unknown"),
}


@pytest.mark.parametrize("case", [*WRONG, "anonymous", "port"])
def test_inputs_that_cannot_be_listed_end_the_run_with_one_line_and_leave_the_tables(
    s3: S3, made: Path, tmp_path: Path, case: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "pipeline.yaml"
    path.write_text(f"inputs: ['{s3.uri('fleet/logs')}']\noutput: out\nspark: {{enabled: false}}\n")
    assert main(["pipeline", "run", "--config", str(path)]) == Exit.DONE
    before = tables(tmp_path / "out")
    capsys.readouterr()
    monkeypatch.setattr(stores, "_opened", {})
    place, environment, says = WRONG.get(case, ("fleet/logs", {}, "access denied"))
    uri = s3.uri(place)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    if case == "anonymous":
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            monkeypatch.delenv(name)
    if case == "port":
        uri, says = uri.replace(str(s3.port), "1"), "the store cannot be reached: curlCode: 7"
    path.write_text(path.read_text().replace(s3.uri("fleet/logs"), uri))
    assert main(["pipeline", "run", "--config", str(path)]) == Exit.UNREACHABLE
    printed = capsys.readouterr()
    assert (printed.out, printed.err.count("\n")) == ("", 1)
    assert f"{uri}: {says}" in printed.err
    assert SECRET not in printed.err
    assert tables(tmp_path / "out") == before


def test_tables_in_a_bucket_are_those_in_a_folder_run_after_run(s3: S3, made: Path) -> None:
    s3.system.create_dir("warehouse")
    uri = s3.uri("warehouse/kafka")
    assert not run_from(str(made / "in"), uri).problems
    assert tables(uri) == tables(made / "out")
    place, options = stores.for_delta(uri)
    read = {name: DeltaTable(f"{place}/{name}", storage_options=options).to_pyarrow_table() for name in tables(uri)}
    assert {name: sorted(texts(table)) for name, table in read.items()} == tables(made / "out")
    before = objects(s3)
    assert run_from(str(made / "in"), uri).files == 0
    assert objects(s3) == before
    assert Output.open(uri).maintain(7) == 0
    assert tables(uri) == tables(made / "out")


def test_of_two_runs_into_a_bucket_the_second_to_commit_fails(s3: S3, made: Path) -> None:
    s3.system.create_dir("contested")
    uri, others = s3.uri("contested"), iter([OneCore()])

    def another() -> None:
        for engine in others:
            run_from(str(made / "in"), uri, engine)

    with pytest.raises(OutputError, match="another run has written to it meanwhile"):
        run_from(str(made / "in"), uri, Meanwhile(another))
    assert tables(uri) == tables(made / "out")


def test_a_run_on_spark_writes_its_tables_into_a_bucket(s3: S3, made: Path) -> None:
    s3.system.create_dir("of-spark")
    values = sparks.arguments([s3.uri("fleet/logs")], s3.uri("of-spark"), "local[2]", HEAP, -1, None)
    summary = sparks.said(sparks.script("tests.e2e.pipeline.runs", *values, env=CREDENTIALS))
    assert not summary["problems"]
    assert tables(s3.uri("of-spark")) == tables(made / "out")


def objects(s3: S3) -> Iterable[Path]:
    return sorted(path for path in (s3.buckets / "warehouse").rglob("*") if path.is_file())


@pytest.mark.usefixtures("made")
def test_tables_and_inputs_take_the_credentials_of_a_profile(s3: S3, tmp_path: Path) -> None:
    s3.system.create_dir("profiles")
    path, profiles = tmp_path / "pipeline.yaml", tmp_path / ".aws" / "credentials"
    output = s3.uri("profiles")
    path.write_text(f"inputs: ['{s3.uri('fleet/logs')}']\noutput: '{output}'\nspark: {{enabled: false}}\n")
    profiles.parent.mkdir()
    profiles.write_text(f"[lake]\naws_access_key_id = {KEY}\naws_secret_access_key = {SECRET}\n")
    environment = {name: value for name, value in os.environ.items() if name not in CREDENTIALS}
    environment |= {"HOME": str(tmp_path), "AWS_PROFILE": "lake", "AWS_EC2_METADATA_DISABLED": "true"}
    command = [sys.executable, "-m", "kafkafeatures", "pipeline", "run", "--config", str(path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (Exit.DONE, "")
    assert load(output)[0].sequence == 1


ABSENT: dict[str, str] = {"anonymous": stores.NO_CREDENTIALS_SET, "port": "the store cannot be reached: tcp connect"}


@pytest.mark.parametrize("case", ABSENT)
def test_tables_without_credentials_or_store_end_a_run_with_one_line(
    s3: S3, made: Path, tmp_path: Path, case: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = s3.uri("fleet/tables")
    if case == "anonymous":
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            monkeypatch.delenv(name)
    else:
        uri = uri.replace(str(s3.port), "1")
    path = tmp_path / "pipeline.yaml"
    path.write_text(f"inputs: ['{made / 'in'}']\noutput: '{uri}'\nspark: {{enabled: false}}\n")
    assert main(["pipeline", "run", "--config", str(path)]) == Exit.UNREACHABLE
    printed = capfd.readouterr()  # also what delta-rs prints
    assert (printed.out, printed.err.count("\n")) == ("", 1)
    assert f"{uri}: {ABSENT[case]}" in printed.err


@pytest.mark.parametrize("case", WRONG.keys() - {"prefix"})
def test_tables_that_the_store_refuses_end_a_run_with_one_line_of_error(
    s3: S3, made: Path, tmp_path: Path, case: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "pipeline.yaml"
    place, environment, says = WRONG[case]
    path.write_text(f"inputs: ['{made / 'in'}']\noutput: '{s3.uri(place)}'\nspark: {{enabled: false}}\n")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert main(["pipeline", "run", "--config", str(path)]) == Exit.UNREACHABLE
    printed = capsys.readouterr()
    assert (printed.out, printed.err.count("\n")) == ("", 1)
    assert says in printed.err
    assert SECRET not in printed.err


def test_evidence_about_clients_in_a_bucket_gives_the_tables_of_a_folder(s3: S3, tmp_path: Path) -> None:
    evidence.logs(tmp_path / "logs")
    evidence.everything(tmp_path / "evidence")
    evidence.run(tmp_path / "logs", tmp_path / "out", [tmp_path / "evidence"])
    s3.copy(tmp_path / "evidence", "clients/evidence")
    s3.system.create_dir("warehouse/clients")
    uri = s3.uri("warehouse/clients")
    assert not evidence.run(tmp_path / "logs", uri, [s3.uri("clients/evidence")]).problems
    assert tables(uri) == tables(tmp_path / "out")
    before = objects(s3)
    assert evidence.run(tmp_path / "logs", uri, [s3.uri("clients/evidence")]).client_files == 0
    assert objects(s3) == before


def test_the_commands_of_the_page_about_the_pipeline_print_in_a_bucket_what_it_shows(tmp_path: Path) -> None:
    (tmp_path / "s3").mkdir()
    with server(tmp_path / "s3") as s3:  # of its own: other tests have buckets with these names
        s3.copy(written() / "logs", "logs")
        s3.system.create_dir("warehouse")
        compared("bucket", {f"127.0.0.1:{s3.port}": "minio.example.com:9000"}, tmp_path, **CREDENTIALS)
