"""`kafkafeatures pipeline run`: what it prints, what it leaves for monitoring, and how it ends."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from featurelog import engine
from featurelog.parts import Task
from kafkafeatures.cli.shell.main import main
from tests.featurelog.inputs import SEGMENT, fleet, made_log, put, tables
from tests.kraftlog.build import NOW

ONE_CORE = "inputs: [in]\noutput: out\nmetrics: metrics.prom\nspark: {enabled: false}\n"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "pipeline.yaml"
    path.write_text(ONE_CORE)
    return path


def pipeline(config: Path, *more: str) -> int:
    return main(["pipeline", "run", "--config", str(config), *more])


def test_a_pipeline_run_prints_one_line_and_a_second_run_finds_nothing_new(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fleet(config.parent / "in")
    assert pipeline(config) == 0
    output = capsys.readouterr()
    assert re.fullmatch(
        r"pipeline: 4 clusters, 8 files with new records, \d+ KiB: \d+ decoded, 0 kept as bytes, \d+ damaged, "
        r"\d+ bytes damaged; \d+\.\d s, one core; tables in \S+/out\n",
        output.out,
    )
    assert output.err == ""
    assert tables(config.parent / "out")["upgrade_readiness"]
    assert pipeline(config) == 0
    assert capsys.readouterr().out == f"pipeline: nothing new in 4 clusters; tables in {config.parent}/out\n"


def test_a_pipeline_run_prints_json_and_writes_a_file_of_metrics(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(config.parent / "in", "orders", "1", SEGMENT, made_log() + b"\xff" * 100)
    put(config.parent / "in", "orders", "1", f"{200:020}.log", b"")
    assert pipeline(config, "-o", "json") == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["clusters"], document["files"], document["damagedBytes"]) == (1, 2, 100)
    metrics = dict(
        re.findall(r"(?m)^kafkafeatures_pipeline_(\S+) (\S+)$", (config.parent / "metrics.prom").read_text())
    )
    assert metrics['records_read{status="decoded"}'] == str(document["records"]["decoded"])
    assert (metrics["damaged_bytes"], metrics["unread_files"], metrics["bytes_read"]) == (
        "100",
        "0",
        str(document["bytes"]),
    )


def test_the_metrics_have_samples_of_each_cluster_and_of_each_copy_whatever_their_names(config: Path) -> None:
    odd = 'a"b\\c d'
    for cluster, node in (("orders", "1"), ("orders", "2"), (odd, "1")):
        data = made_log() + b"\xff" * 100 if cluster == odd else made_log()
        log = put(config.parent / "in", cluster, node, SEGMENT, data)
        os.utime(log, (5000, 5000))
    for _ in range(2):  # also if nothing is new
        assert pipeline(config) == 0
        text = (config.parent / "metrics.prom").read_text()
        samples = {
            (sample.name.removeprefix("kafkafeatures_pipeline_"), tuple(sample.labels.values())): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }
        assert samples["cluster_damaged_bytes", (odd,)] == 100
        assert samples["cluster_damaged_bytes", ("orders",)] == 0
        # Two copies of a log, against one copy with damage, which counts as one more record: n + n == 2 * (n + 1) - 2.
        assert samples["cluster_records", ("orders",)] == 2 * samples["cluster_records", (odd,)] - 2
        assert samples["cluster_last_record_timestamp_seconds", ("orders",)] * 1000 > NOW
        for labels in (("orders", "1"), ("orders", "2"), (odd, "1")):
            assert samples["copy_modified_timestamp_seconds", labels] == 5000


def test_an_unreadable_file_is_named_and_the_other_files_are_in_the_tables(
    config: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    put(config.parent / "in", "orders", "1", SEGMENT, made_log())
    path = put(config.parent / "in", "orders", "2", SEGMENT, made_log())

    def gone(task: Task, folder: str) -> engine.Outcome:
        if task.node == "2":
            path.unlink(missing_ok=True)
        return run_task(task, folder)

    run_task = engine.run_task
    monkeypatch.setattr(engine, "run_task", gone)
    assert pipeline(config) == 1
    assert capsys.readouterr().err == f"pipeline: orders/2/{SEGMENT}: deleted since it was listed; run again\n"
    assert tables(config.parent / "out")["feature_timeline"]


@pytest.mark.parametrize(
    ("content", "code", "message"),
    [
        ("inputs: [gone]\noutput: out\nspark: {enabled: false}", 5, "/gone: No such file or directory; check the path"),
        ("inputs: [in]\noutput: pipeline.yaml\nspark: {enabled: false}", 5, "pipeline.yaml"),
        (ONE_CORE.replace("metrics: metrics.prom", "mode: FAILFAST"), 1, "has another magic than 2; mode is"),
        ("inputs: [in]\noutput: out\ndocuments: gone", 64, "/gone: No such file or directory"),
        (ONE_CORE.replace("metrics: metrics.prom", "metrics: pipeline.yaml/m"), 1, "the tables are written, the"),
        (ONE_CORE.replace("[in]", "[in/orders]"), 5, "no metadata log is here; expected <cluster>/<node>/__clu"),
        ("inputs: [in]", 64, "output: required field is missing"),
    ],
)  # fmt: skip
def test_a_failed_pipeline_run_prints_one_line_and_has_an_exit_code(
    config: Path, capsys: pytest.CaptureFixture[str], content: str, code: int, message: str
) -> None:
    put(config.parent / "in", "orders", "1", SEGMENT, b"\xff" * 100)
    config.write_text(content)
    assert pipeline(config) == code
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_the_pipeline_needs_java_only_if_there_are_new_files(
    config: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    put(config.parent / "in", "orders", "1", SEGMENT, made_log())
    assert pipeline(config) == 0
    monkeypatch.setenv("JAVA_HOME", os.devnull)
    config.write_text("inputs: [in]\noutput: out\n")
    capsys.readouterr()
    assert pipeline(config) == 0
    assert "nothing new" in capsys.readouterr().out
    put(config.parent / "in", "orders", "2", SEGMENT, made_log())
    assert pipeline(config) == 1
    assert "Spark needs Java 17 or newer" in capsys.readouterr().err


def test_a_new_document_changes_the_tables_without_a_new_log(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def drift() -> tuple[str, str | None]:
        (row,) = map(json.loads, tables(config.parent / "out")["drift"])
        return row["drift"], row["document"]

    put(config.parent / "in", "orders", "1", SEGMENT, made_log(), "orders-id")
    (config.parent / "documents").mkdir()
    config.write_text(ONE_CORE + "documents: documents\n")
    assert pipeline(config) == 0
    assert drift() == ("Unknown", None)
    capsys.readouterr()
    document = {
        "apiVersion": "kafkafeatures.dev/v1alpha1", "kind": "KafkaFeatures", "metadata": {"name": "orders"},
        "spec": {
            "cluster": {"bootstrapServers": "a:1"}, "features": {"levels": [{"name": "metadata.version", "level": 21}]}
        },
        "status": {"clusterId": "orders-id"},
    }  # fmt: skip
    (config.parent / "documents" / "orders.json").write_text(json.dumps(document))
    assert pipeline(config) == 0
    assert drift() == ("Drifted", "default/orders")  # the log has a higher level
    assert capsys.readouterr().out.startswith("pipeline: nothing new in 1 cluster")


def test_a_second_pipeline_run_at_the_same_time_fails_with_one_line(
    config: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    put(config.parent / "in", "orders", "1", SEGMENT, made_log())
    others = iter([lambda: pipeline(config)])

    def after_another(task: Task, output: str) -> engine.Outcome:
        next(others, lambda: 0)()
        return run_task(task, output)

    run_task = engine.run_task
    monkeypatch.setattr(engine, "run_task", after_another)
    assert pipeline(config) == 5
    line = "/out: another run has written to it meanwhile; run it again\n"
    assert capsys.readouterr().err.endswith(line)
