"""URIs of stores: those that are allowed, and the error for others, and for a store that refuses."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path
from threading import Barrier, current_thread

import pytest
from pyarrow.fs import LocalFileSystem

from featurelog import layout, stores
from featurelog.config import ConfigError, read
from featurelog.layout import InputsError, Root
from tests.featurelog.inputs import SEGMENT, put

HIDDEN = "hidden"


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        (f"s3://key:{HIDDEN}@bucket/logs", "s3://bucket/logs: credentials may not be part of a URI; give them in "),
        (f"s3://{HIDDEN}@bucket", "s3://bucket: credentials may not be part of a URI"),
        (
            f"s3://bucket?secret_key={HIDDEN}",
            "s3://bucket: unknown option 'secret_key' behind the '?'; expected region,",
        ),
        (
            f"s3://bucket?regoin={HIDDEN}",
            "s3://bucket: unknown option 'regoin' behind the '?'; expected region, endpoint",
        ),
        ("s3://bucket?scheme=ftp", "s3://bucket: option scheme: expected http or https"),
        ("s3://bucket/a//b", "s3://bucket/a//b: expected s3://bucket/prefix"),
        ("s3:///logs", "s3:///logs: expected s3://bucket/prefix"),
        (f"s3://[{HIDDEN}", "s3://...: not a URI: "),
        ("s3://bucket/logs#part", "s3://bucket/logs: expected s3://bucket/prefix"),
        (f"hdfs://user:{HIDDEN}@host/logs", "hdfs://host/logs: credentials may not be part of a URI"),
        (f"abfs://box@host/logs?account_key={HIDDEN}", "abfs://host/logs: credentials may not be part of a URI"),
    ],
)
def test_a_uri_that_may_not_be_used_is_one_line_without_its_secrets(tmp_path: Path, uri: str, message: str) -> None:
    path = tmp_path / "pipeline.yaml"
    path.write_text(f"inputs: ['{uri}']\noutput: out\n")
    with pytest.raises(ConfigError) as of_file:
        read(path)
    with pytest.raises(InputsError) as of_root:
        list(Root.of(uri).nodes())
    assert str(of_file.value).startswith(f"{path}: inputs: {message}")
    assert str(of_root.value).startswith(message)
    for error in (of_file.value, of_root.value):
        assert HIDDEN not in str(error)
        assert "\n" not in str(error)


@pytest.mark.parametrize("name", ["documents", "metrics"])
def test_the_folder_of_documents_and_the_file_of_metrics_must_be_paths_not_uris(tmp_path: Path, name: str) -> None:
    path = tmp_path / "pipeline.yaml"
    fields = {"output": "out", name: "s3://bucket/tables"}
    path.write_text("inputs: [in]\n" + "".join(f"{key}: '{value}'\n" for key, value in fields.items()))
    with pytest.raises(ConfigError, match=rf": {name}: invalid value; expected a path, not a URI"):
        read(path)


AWS = "When listing objects under key 'a' in bucket 'b': AWS Error {} during ListObjectsV2 operation: {}"


NO_KEYS = "no credentials found in chain. Attempted:"
GOOGLE = "http://169.254.169.254/computeMetadata/v1/instance/service-accounts/default/token"


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (OSError(13, "Permission denied"), "Permission denied"),
        (FileNotFoundError("[Errno 2] Cannot open. Detail: [errno 2] No such file"), "No such file"),
        (OSError(AWS.format("NO_SUCH_BUCKET", "The bucket is not. (Request ID: X1)")), "there is no such bucket"),
        (OSError(AWS.format("ACCESS_DENIED", "No response body.")), "access denied (ListObjectsV2)"),
        (OSError(AWS.format("NETWORK_CONNECTION", "curlCode: 7")), "the store cannot be reached: curlCode: 7"),
        (OSError(AWS.format("UNKNOWN (HTTP status 404)", "X.")), "UNKNOWN (HTTP status 404) (ListObjectsV2): X."),
        (OSError(AWS.format("SLOW_DOWN", "Slow {down}.")), "SLOW_DOWN (ListObjectsV2): Slow {down}."),
        (
            RuntimeError(f"\x1b[31m\u21b3\x1b[0m 403 Forbidden: <?xml?><Code>AccessDenied</Code><Key>{HIDDEN}</Key>"),
            "access denied (Delta table)",
        ),
        (RuntimeError(f"Not supported\n \u21b3 {NO_KEYS}\n \u21b3 StorageOptions {HIDDEN}"), stores.NO_CREDENTIALS_SET),
        (OSError("Error performing PUT http://169.254.169.254/latest/api/token in 6 ms"), stores.NO_CREDENTIALS_SET),
        (OSError(f"token request {GOOGLE} in 6 ms - 403 Forbidden"), f"token request {GOOGLE} in 6 ms - 403 Forbidden"),
        (
            OSError(
                "GET http://h:1/ in 1s, after 2 retries - HTTP error\n\u21b3 client error (Connect)\n\u21b3 dns error"
            ),
            "the store cannot be reached: dns error",
        ),
        (ValueError("two\nlines"), "two lines"),
        (ValueError("x" * 1000), "x" * 300 + "..."),
    ],
)
def test_the_reason_of_a_refusing_store_is_one_short_line(error: Exception, message: str) -> None:
    assert stores.reason(error) == message
    assert stores.is_lost(error) is ("curlCode" in message)  # of these, only the network error means that it is away


def test_delta_rs_prints_no_warnings_whichever_module_is_imported_first() -> None:
    code = "import os, sys, featurelog; print('deltalake' in sys.modules, os.environ['RUST_LOG'])"
    environment = {name: value for name, value in os.environ.items() if name != "RUST_LOG"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "False error\n"


def test_credentials_of_an_opened_store_are_not_pickled_for_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "somebody")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", HIDDEN)
    stores.open_store("s3://bucket?endpoint_override=127.0.0.1:1")
    assert b"127.0.0.1:1" in pickle.dumps(stores._opened)
    assert HIDDEN.encode() not in pickle.dumps(stores._opened)


def test_percent_encoded_characters_in_a_prefix_are_decoded() -> None:
    system, path = stores.open_store("s3://bucket/a%20b/%23c/?endpoint_override=127.0.0.1:1")
    assert path == "bucket/a b/#c"
    assert system.type_name == "s3"


def test_files_in_a_folder_have_no_version_since_they_grow_while_they_are_read(tmp_path: Path) -> None:
    path = put(tmp_path, "orders", "1", SEGMENT, b"bytes")
    assert stores.version(LocalFileSystem().open_input_file(str(path))) == ""


def test_a_folder_with_more_names_than_a_fleet_has_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "MOST", 2)
    for number in range(3):
        put(tmp_path, f"c{number}", "1", SEGMENT, b"bytes")
    with pytest.raises(InputsError, match=r": 3 names, more than 2; expected folders of clusters and nodes"):
        list(Root.of(str(tmp_path)).nodes())


@pytest.mark.parametrize(
    ("uri", "place", "options"),
    [
        ("s3://b/p/?region=eu-west-1", "s3://b/p", {"AWS_REGION": "eu-west-1"}),
        (
            "s3://b?endpoint_override=host:9000&scheme=http",
            "s3://b",
            {"AWS_ENDPOINT_URL": "http://host:9000", "AWS_ALLOW_HTTP": "true", "AWS_REGION": "us-east-1"},
        ),
    ],
    ids=["a region", "another endpoint, with the default region"],
)
def test_an_export_uri_leads_to_the_same_store_as_an_input_uri(
    uri: str, place: str, options: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_REGION", raising=False)
    monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "somebody")
    store, delta_options = stores.for_delta(uri)
    assert store == place
    assert {name: value for name, value in delta_options.items() if name.startswith("AWS")} == options


def test_requests_to_an_object_store_run_concurrently_up_to_a_limit() -> None:
    together = Barrier(stores.AT_ONCE, timeout=60)
    threads = []

    def request(number: int) -> int:
        threads.append(current_thread())
        together.wait()  # ends only once AT_ONCE requests run
        return number

    assert list(stores.each(request, range(3 * stores.AT_ONCE), "/in", "s3://bucket")) == [*range(3 * stores.AT_ONCE)]
    assert len(set(threads)) == stores.AT_ONCE


def test_requests_to_a_local_folder_run_one_after_the_other() -> None:
    results = stores.each(lambda number: (number, current_thread()), range(3), "/in", "/more")
    assert list(results) == [(number, current_thread()) for number in range(3)]
