"""The configuration of a run: paths mean the same from anywhere, and what is wrong is said in one line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from featurelog.config import ConfigError, documents, read
from tests.started import PYTHONPATH

SHORT = "inputs: [in]\noutput: out\n"


def test_paths_are_relative_to_the_file(tmp_path: Path) -> None:
    path = tmp_path / "pipeline.yaml"
    path.write_text(
        'inputs: [in, /abs, "s3://bucket/logs"]\noutput: out\ndocuments: kf\nmetrics: m.prom\nmode: FAILFAST\n'
        "spark: {enabled: false, conf: {spark.speculation: true, spark.task.cpus: 2}}\n"
    )
    found = read(path)
    assert found.settings.inputs == (str(tmp_path / "in"), "/abs", "s3://bucket/logs")
    assert found.settings.output == str(tmp_path / "out")
    assert (found.documents, found.metrics) == (tmp_path / "kf", tmp_path / "m.prom")
    assert found.settings.mode == "FAILFAST"
    assert not found.spark.enabled
    assert found.spark.conf == {"spark.speculation": "true", "spark.task.cpus": "2"}


def test_the_defaults_are_mode_permissive_and_spark_on_this_machine(tmp_path: Path) -> None:
    path = tmp_path / "pipeline.yaml"
    path.write_text(SHORT)
    found = read(path)
    assert found.settings.mode == "PERMISSIVE"
    assert (found.spark.enabled, found.spark.master, dict(found.spark.conf)) == (True, "local[*]", {})
    assert found.documents is found.metrics is None


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "expected a mapping of fields: inputs, output, "),
        ("- a", "expected a mapping of fields: inputs, output, "),
        ("inputs: [in]", "output: required field is missing"),
        ("output: out", "inputs: required field is missing"),
        ("inputs: []\noutput: out", "inputs: required field is missing"),
        ("inputs: in\noutput: out", "inputs: invalid value 'in'; expected a list of folders or URIs"),
        ("inputs: [1]\noutput: out", "inputs: invalid value; expected a list of folders or URIs"),
        (SHORT + "mode: LENIENT", "mode: invalid value 'LENIENT'; expected PERMISSIVE, DROPMALFORMED, FAILFAST"),
        (SHORT + "metric: a", "metric: unknown field; did you mean 'metrics'? valid fields: inputs, "),
        (SHORT + "spark: {masters: a}", "spark.masters: unknown field; did you mean 'master'? valid fields: enabled, "),
        (SHORT + "spark: {enabled: maybe}", "spark.enabled: invalid value 'maybe'; expected true or false"),
        (SHORT + "spark: yes", "spark: invalid value True; expected a mapping"),
        (SHORT + "clients: {inputs: [e]}", "clients.releases: required field is missing"),
        (SHORT + "clients: {releases: ['4.1']}", "clients.inputs: required field is missing"),
        (
            SHORT + "clients: {releases: '4.1'}",
            """clients.releases: invalid value '4.1'; expected a list of releases in quotes, such as ["4.1"]""",
        ),
        (
            SHORT + "clients: {input: [e]}",
            "clients.input: unknown field; did you mean 'inputs'? valid fields: inputs, ",
        ),
        (
            SHORT + "clients: {inputs: [e], releases: [4.1]}",
            'clients.releases: invalid value; expected a list of releases in quotes, such as ["4.1"]',
        ),
        (
            SHORT + "clients: {inputs: [e], releases: ['4.1'], window: 5w}",
            "clients.window: invalid value '5w'; expected days or hours, such as 35d",
        ),
        (
            SHORT + "clients: {inputs: ['s3://key:secret@b/e'], releases: ['4.1']}",
            "clients.inputs: s3://b/e: credentials may not be part of a URI",
        ),
        ("inputs: [in\noutput: out", "line 2: invalid YAML: expected ',' or ']', but got ':'"),
        ("a: b: c", "line 1: invalid YAML: mapping values are not allowed here"),
        ("a: !!timestamp now", "invalid YAML: a value does not match its tag"),
        ("[" * 20_000, "invalid YAML: nested too deeply"),
        ("\x00", "invalid YAML: special characters are not allowed"),
    ],
)
def test_a_wrong_configuration_gives_one_line_that_names_the_file_and_what_is_wrong(
    tmp_path: Path, content: str, message: str
) -> None:
    path = tmp_path / "pipeline.yaml"
    path.write_text(content)
    with pytest.raises(ConfigError) as error:
        read(path)
    assert str(error.value).startswith(f"{path}: {message}")
    assert "\n" not in str(error.value)


def test_evidence_about_clients_has_its_own_inputs_releases_window_and_owners(tmp_path: Path) -> None:
    path = tmp_path / "pipeline.yaml"
    path.write_text(SHORT + "clients: {inputs: [e, 's3://b/e'], releases: ['4.1', '4.2', '4.1'], owners: o.yaml}\n")
    with pytest.raises(ConfigError, match=r"o\.yaml: No such file or directory"):
        read(path)
    (tmp_path / "o.yaml").write_text("owners: [{team: Shop, clientId: 'shop-*'}]\n")
    clients = read(path).clients
    assert clients is not None
    assert (clients.inputs, clients.releases) == ((str(tmp_path / "e"), "s3://b/e"), ("4.1", "4.2"))
    assert (clients.window_ms, [owner.team for owner in clients.owners]) == (35 * 86_400_000, ["Shop"])  # the default
    (tmp_path / "o.yaml").write_text("teams: []\n")
    with pytest.raises(ConfigError, match=r"o\.yaml: .*expected owners: "):
        read(path)


def test_paths_in_a_configuration_from_standard_input_are_relative_to_the_current_folder(tmp_path: Path) -> None:
    code = (
        "from pathlib import Path\nfrom featurelog.config import ConfigError, read\n"
        "try: print(read(Path('-')).settings.output)\nexcept ConfigError as error: print(error)"
    )
    for text, output in (
        ("inputs: [logs]\noutput: t", str(tmp_path / "t")),
        ("inputs: [logs]", "stdin: output: required field"),
    ):
        ran = subprocess.run(
            [sys.executable, "-c", code], input=text, cwd=tmp_path, env={**os.environ, "PYTHONPATH": PYTHONPATH},
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert ran.stdout.startswith(output)


def test_a_missing_configuration_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"gone\.yaml: No such file or directory"):
        read(tmp_path / "gone.yaml")


def test_documents_are_read_from_every_yaml_and_json_file_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "b.yaml").write_text("a: 1\n---\na: 2\n---\n")
    (tmp_path / "a.json").write_text('{"a": 0}')
    (tmp_path / "notes.txt").write_text(": no YAML :")
    assert list(documents(tmp_path)) == [{"a": 0}, {"a": 1}, {"a": 2}]
    (tmp_path / "c.yml").write_text("a: b: c")
    with pytest.raises(ConfigError, match=r"c\.yml: line 1: invalid YAML"):
        list(documents(tmp_path))
    with pytest.raises(ConfigError, match="gone: No such file"):
        list(documents(tmp_path / "gone"))
