"""Feeds each decoder with bad bytes, in a process of its own that may have 512 MB.

    python -m tests.fuzz.child FOLDER       all of `JOBS`; FOLDER has for each what `Ended` reads
    python -m tests.fuzz.child DECODER -    hexadecimal bytes from stdin, once: how to look at an input that failed

A machine that overcommits memory grants whatever a decoder asks for, so that only the limit shows what it asked for.
"""

from __future__ import annotations

import os
import resource
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from random import Random
from typing import NoReturn

from tests.amounts import SOAK
from tests.fuzz.decoders import DECODERS, pieces, seed_of, snapshots
from tests.fuzz.replies import one_of_each, replies

MOST_MEMORY = 512 * 1024 * 1024
MOST_SECONDS = 1.0  # of CPU, for one input
SMALL = 1024
DAMAGES = 10  # of each byte, see `damaged`
SAMPLE = None if SOAK else 2_000

Input = tuple[str, bytes]  # a decoder and what it is given

# Lengths, counts and numbers at their ends: compact ones first, then those of a fixed width.
CLAIMS = [
    bytes.fromhex(one)
    for one in (
        "ffffffff0f", "ffffffff07", "8080808008", "ffff7f", "80808080808001", "ffffffffffffffffff01",
        "7fffffff", "ffffffff", "80000000", "fffffffe", "00ffffff", "7fff", "8000", "ffff", "ff", "00", "01", "80",
        "7fffffffffffffff", "8000000000000000", "ffffffffffffffff",
    )
]  # fmt: skip


def executions(name: str) -> int:
    """All that are asked for in `make soak`, else one in twenty."""
    return DECODERS[name].executions // (1 if SOAK else 20)


def mutated(name: str) -> Iterator[Input]:
    """Mutated inputs, as many as the decoder asks for, each made from a recorded one."""
    random, seeds = Random(name), DECODERS[name].seeds()
    for _ in range(executions(name)):
        data = bytearray(random.choice(seeds))
        for _ in range(random.choice((1, 1, 1, 2, 3, 8))):
            at = random.randrange(len(data) + 1)
            match random.randrange(7):
                case 0 if data:
                    data[at % len(data)] ^= 1 << random.randrange(8)
                case 1 if data:
                    data[at % len(data)] = random.randrange(256)
                case 2:
                    claim = random.choice(CLAIMS)
                    data[at : at + len(claim)] = claim
                case 3:
                    data[at:at] = random.choice(CLAIMS)
                case 4:
                    del data[at : at + random.randrange(1, 9)]
                case 5:
                    del data[at:]
                case _:
                    other = random.choice(seeds)
                    data[at:] = other[random.randrange(len(other) + 1) :][:10_000]
        yield name, bytes(data)


def damaged(name: str, data: bytes, keep: int = 0) -> Iterator[Input]:
    """Every prefix, every single bit flipped, and a vast length at every place; the first `keep` bytes stay."""
    for at in range(keep, len(data)):
        yield name, data[:at]
        for bit in range(8):
            yield name, data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :]
        yield name, data[:at] + CLAIMS[0] + data[at + len(CLAIMS[0]) :]


def sampled(inputs: Iterable[Input], size: int) -> Iterator[Input]:
    """About SAMPLE of `size` inputs, the same on each run; all of them where none is given."""
    random, share = Random(size), SAMPLE / size if SAMPLE else 1.0
    return (one for one in inputs if random.random() < share)


def small_replies() -> Iterator[Input]:
    for (api, _), reply in sorted(one_of_each(SMALL).items()):
        yield from damaged(f"reply {api}", seed_of(reply), keep=1)


def large_replies() -> Iterator[Input]:
    found = [reply for reply in replies() if len(reply.data) > SMALL]
    inputs = (one for reply in found for one in damaged(f"reply {reply.api}", seed_of(reply), keep=1))
    return sampled(inputs, DAMAGES * sum(len(reply.data) for reply in found))


def damaged_logs(sealed: str) -> Iterator[Input]:
    found = [(f"log{sealed}", data) for data in pieces()] + [(f"snapshot{sealed}", data) for data in snapshots()]
    inputs = (one for name, data in found for one in damaged(name, data))
    return sampled(inputs, DAMAGES * sum(len(data) for _, data in found))


JOBS: Mapping[str, Callable[[], Iterator[Input]]] = {
    **{name: partial(mutated, name) for name in DECODERS},
    "every damage of small replies": small_replies,
    "damage of large replies": large_replies,
    "damage of logs": partial(damaged_logs, ""),
    "damage of logs, sealed": partial(damaged_logs, ", sealed"),
}


def run(job: str, trace: int) -> None:
    executed = refused = 0
    for name, data in JOBS[job]():
        decoder = DECODERS[name]
        os.pwrite(trace, b"%s\0%d\0%s" % (name.encode(), len(data), data), 0)
        began = time.process_time()
        try:
            decoder.decode(data)
        except decoder.errors:
            refused += 1
        spent = time.process_time() - began
        assert spent < MOST_SECONDS, f"{spent:.1f} s of CPU for one input"
        executed += 1
    print(executed, refused)


class Ended:
    """How a job ended: its exit code (below 0: the signal), what it printed, and the last input of which decoder."""

    def __init__(self, folder: Path, job: str) -> None:
        self._file = folder / str([*JOBS].index(job))

    @property
    def code(self) -> int:
        return int(self._file.with_suffix(".code").read_text())

    @property
    def said(self) -> list[str]:
        return self._file.with_suffix(".said").read_text().splitlines()

    @property
    def input(self) -> tuple[str, bytes]:
        name, size, data = self._file.with_suffix(".trace").read_bytes().split(b"\0", 2)
        return name.decode(), data[: int(size)]

    def begin(self, job: str) -> NoReturn:
        """Run it in this process, to the end of the process."""
        said, trace = (
            os.open(self._file.with_suffix(kind), os.O_WRONLY | os.O_CREAT, 0o600) for kind in (".said", ".trace")
        )
        os.dup2(said, 1)
        os.dup2(said, 2)
        code = 1
        try:
            limit()
            run(job, trace)
            sys.stdout.flush()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)

    def wait(self, child: int) -> None:
        _, status = os.waitpid(child, 0)
        self._file.with_suffix(".code").write_text(str(os.waitstatus_to_exitcode(status)))


def limit() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def main(first: str, second: str = "") -> None:
    if second == "-":
        limit()
        print(DECODERS[first].decode(bytes.fromhex(sys.stdin.read())))
        return
    for job in JOBS:  # forked from this one, which has imported everything
        ended, child = Ended(Path(first), job), os.fork()
        if child == 0:
            ended.begin(job)
        ended.wait(child)


if __name__ == "__main__":
    main(*sys.argv[1:])
