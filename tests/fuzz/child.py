"""Feeds one decoder with bad bytes, in a process of its own that may have 512 MB.

    python -m tests.fuzz.child JOB TRACE    one job of `JOBS`; TRACE holds the last input, for when the process dies
    python -m tests.fuzz.child DECODER -    hexadecimal bytes from stdin, once: how to look at an input that failed

A machine that overcommits memory grants whatever a decoder asks for, so that only the limit shows what it asked for.
"""

from __future__ import annotations

import os
import resource
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from random import Random

from tests.fuzz.decoders import DECODERS, pieces, seed_of, snapshots
from tests.fuzz.replies import one_of_each, replies

MOST_MEMORY = 512 * 1024 * 1024
MOST_SECONDS = 1.0  # of CPU, for one input
SMALL = 1024
DAMAGES = 10  # of each byte, see `damaged`
SOAK = bool(os.environ.get("SOAK"))
SAMPLE = None if SOAK else 4_000

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
    """All that are asked for in `make soak`, else a quarter of them."""
    return DECODERS[name].executions // (1 if SOAK else 4)


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


def main(job: str, path: str) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if path == "-":
        print(DECODERS[job].decode(bytes.fromhex(sys.stdin.read())))
        return
    trace = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    run(job, trace)


if __name__ == "__main__":
    main(*sys.argv[1:])
