"""No bytes of a peer end the process, take much memory or time, or raise what is not typed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kafkafeatures.kafka.wire.codec import every_api
from tests.fuzz.child import JOBS, SMALL, Ended, executions
from tests.fuzz.decoders import DECODERS
from tests.fuzz.replies import one_of_each
from tests.started import PYTHONPATH, ROOT

APIS = every_api()


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which all jobs have run."""
    folder = tmp_path_factory.mktemp("jobs")
    environment = {**os.environ, "PYTHONPATH": f"{PYTHONPATH}:{ROOT}"}
    subprocess.run([sys.executable, "-m", "tests.fuzz.child", str(folder)], cwd=ROOT, env=environment, check=True)
    return folder


@pytest.mark.parametrize("job", JOBS)
def test_bad_bytes_end_in_a_typed_error(job: str, results: Path) -> None:
    ended = Ended(results, job)
    if ended.code:
        name, data = ended.input
        pytest.fail(
            f"{name} ended with {ended.code}: {' '.join(ended.said[-1:])}\n"
            f"again: echo {data.hex()} | python -m tests.fuzz.child {name!r} -"
        )
    executed, refused = map(int, ended.said[0].split())
    assert executed >= (executions(job) if job in DECODERS else 1000)
    assert refused or job in ("record", "control record")  # these decoders return a value for damaged bytes too


def test_there_is_a_recorded_reply_of_each_api_and_version() -> None:
    spoken = {
        (api, version) for api, ours in APIS.items() for version in range(ours.versions.min, ours.versions.max + 1)
    }
    assert one_of_each(SMALL).keys() == spoken
