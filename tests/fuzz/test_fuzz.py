"""No bytes of a peer end the process, take much memory or time, or raise what is not typed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kafkafeatures.kafka.wire.codec import every_api
from tests.fuzz.child import JOBS, SMALL, executions
from tests.fuzz.decoders import DECODERS
from tests.fuzz.replies import one_of_each
from tests.started import PYTHONPATH, ROOT

APIS = every_api()


@pytest.mark.parametrize("job", JOBS)
def test_bad_bytes_end_in_a_typed_error(job: str, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    done = subprocess.run(
        [sys.executable, "-m", "tests.fuzz.child", job, str(trace)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{PYTHONPATH}:{ROOT}"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        name, size, data = trace.read_bytes().split(b"\0", 2)
        said = done.stderr.splitlines()
        pytest.fail(
            f"{name.decode()} ended with {done.returncode}: {said[0] if done.returncode < 0 else said[-1]}\n"
            f"again: echo {data[: int(size)].hex()} | python -m tests.fuzz.child {name.decode()!r} -"
        )
    executed, refused = map(int, done.stdout.split())
    assert executed >= (executions(job) if job in DECODERS else 1000)
    assert refused or job in ("record", "control record")  # whose answers are values


def test_there_is_a_recorded_reply_of_each_api_and_version() -> None:
    spoken = {
        (api, version) for api, ours in APIS.items() for version in range(ours.versions.min, ours.versions.max + 1)
    }
    assert one_of_each(SMALL).keys() == spoken
