"""Configs in an image: all that are set, and values that may be secret only as digests."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Iterable
from typing import Any

import pytest

from kraftlog import Image, Replay, Section, TooLargeError
from kraftlog.digests import digest_of
from kraftlog.image_builder import MAX_DECODED
from kraftlog.records import frame
from kraftlog.schema.others import REMOVE_USER_SCRAM_CREDENTIAL, USER_SCRAM_CREDENTIAL
from tests.kraftlog.build import batch, begin, end, log, snapshot
from tests.kraftlog.partitions import config as config_of
from tests.kraftlog.partitions import partition, remove, topic

TOPIC, BROKER, GROUP = 2, 4, 32
WITH_PARTITIONS = (Section.CONFIGS, Section.PARTITIONS)


def config(type_: int, of: str, name: str, value: str | None) -> bytes:
    return config_of(type_, of, value, name)


def credential(salt: bytes = b"salt-9f3c", name: str = "alice", iterations: int = 4096) -> bytes:
    secrets = {"salt": salt, "storedKey": b"stored", "serverKey": b"server"}
    return frame(USER_SCRAM_CREDENTIAL, {"name": name, "mechanism": 1, "iterations": iterations, **secrets})


def image_of(*values: bytes, sections: Iterable[Section] = (Section.CONFIGS,)) -> Image:
    replay = Replay(sections=sections)
    replay.append(log(values), below=1 << 40)
    return replay.image()


def test_configs_of_every_resource_are_added_changed_and_removed() -> None:
    image = image_of(
        config(TOPIC, "t", "retention.ms", "1"), config(BROKER, "", "num.io.threads", "8"),
        config(BROKER, "1", "num.io.threads", "9"), config(GROUP, "g", "consumer.session.timeout.ms", "1"),
        config(TOPIC, "t", "retention.ms", "2"), config(BROKER, "1", "num.io.threads", None),
    )  # fmt: skip
    assert dict(image.configs.values) == {
        (TOPIC, "t", "retention.ms"): "2",
        (BROKER, "", "num.io.threads"): "8",
        (GROUP, "g", "consumer.session.timeout.ms"): "1",
    }


def test_values_that_may_be_secret_are_kept_as_digests() -> None:
    image = image_of(
        config(BROKER, "1", "ssl.key.password", "9f3c"), config(TOPIC, "t", "of.a.plugin", "9f3c"), credential()
    )
    assert set(image.configs.values.values()) == {digest_of("9f3c")}
    (one,) = image.configs.credentials.values()
    assert (one.iterations, one.digest) == (4096, digest_of(b"salt-9f3c", b"stored", b"server"))
    for text in (pickle.dumps(image), repr(image).encode()):
        assert b"9f3c" not in text
    assert repr(one.digest) == "(secret)"


def test_credentials_are_equal_only_if_all_their_secrets_are() -> None:
    def digest(*values: bytes) -> object:
        return image_of(*values).configs.credentials["alice", 1].digest

    assert digest(credential()) == digest(credential(b"other"), credential())
    assert digest(credential()) != digest(credential(b"other"))


def test_a_credential_is_removed_by_its_record() -> None:
    gone = frame(REMOVE_USER_SCRAM_CREDENTIAL, {"name": "alice", "mechanism": 1})
    assert dict(image_of(credential(), gone).configs.credentials) == {}


@pytest.mark.parametrize("sections", [(Section.CONFIGS,), WITH_PARTITIONS], ids=["alone", "with partitions"])
@pytest.mark.parametrize("at_once", [False, True], ids=["one by one", "at once"])
def test_configs_of_a_topic_are_removed_with_the_topic(sections: tuple[Section, ...], at_once: bool) -> None:
    values = [
        topic(1, "a"), config(TOPIC, "a", "retention.ms", "1"), topic(2, "b"), config(TOPIC, "b", "retention.ms", "2"),
        config(TOPIC, "a", "segment.ms", "1"), remove(1), topic(3, "a"), config(TOPIC, "a", "retention.ms", "3"),
    ]  # fmt: skip
    others = [topic(number, f"t{number}") for number in range(10, 60 if at_once else 10)]
    image = image_of(*others, *values, sections=sections)
    assert dict(image.configs.values) == {(TOPIC, "a", "retention.ms"): "3", (TOPIC, "b", "retention.ms"): "2"}
    assert image.unreadable == 0


def test_removing_an_unknown_topic_counts_as_unreadable() -> None:
    assert image_of(remove(1)).unreadable == 1


def test_configs_of_a_removed_topic_go_also_after_partitions_were_left_out() -> None:
    replay = Replay(sections=WITH_PARTITIONS)
    replay.append(log([topic(1, "a"), partition(1, 0, 1), config(TOPIC, "a", "retention.ms", "1")]), below=1 << 40)
    replay.leave_out(Section.PARTITIONS)
    replay.append(batch(3, remove(1)), below=1 << 40)
    image = replay.image()
    assert (dict(image.configs.values), image.unreadable, image.partitioned) == ({}, 0, None)
    replay.leave_out(Section.CONFIGS)
    assert replay.image().configured is None
    assert replay.weight < 1000


@pytest.mark.parametrize("sections", list(itertools.combinations(Section, 2)), ids=str)
def test_sections_of_an_image_are_the_same_read_together_or_alone(sections: tuple[Section, ...]) -> None:
    values = [
        topic(1, "a"), config(TOPIC, "a", "min.insync.replicas", "2"), config(BROKER, "", "min.insync.replicas", "1"),
        begin(), credential(), end(), config(BROKER, "1", "num.io.threads", "8"),
    ]  # fmt: skip
    whole, part = image_of(*values, sections=Section), image_of(*values, sections=sections)
    for section in sections:
        assert getattr(part, section.value) == getattr(whole, section.value)


def test_a_batch_of_a_snapshot_may_have_more_configs_than_a_cluster_has_nodes() -> None:
    values = [config(TOPIC, f"t{number}", "retention.ms", "1") for number in range(MAX_DECODED + 1)]
    replay = Replay(sections=[Section.CONFIGS])
    replay.load_snapshot(snapshot(*values), end_offset=9, epoch=1)
    assert len(replay.image().configs.values) == MAX_DECODED + 1


@pytest.mark.parametrize(
    "make",
    [
        lambda n: config(TOPIC, f"t{n}", "retention.ms", "1"),
        lambda n: credential(name=f"u{n}"),
        lambda n: topic(n + 1, f"t{n}"),
    ],
    ids=["configs", "credentials", "topics"],
)
def test_the_memory_of_configs_is_bounded(make: Any) -> None:
    replay = Replay(sections=[Section.CONFIGS], limit=200_000)
    with pytest.raises(TooLargeError):
        replay.append(log(*([make(number)] for number in range(1000))), below=1 << 40)


def test_an_image_of_configs_does_not_change_with_later_records() -> None:
    replay = Replay(sections=[Section.CONFIGS])
    replay.append(log([config(TOPIC, "t", "retention.ms", "1")]), below=9)
    earlier = replay.image()
    replay.append(log([config(TOPIC, "t", "retention.ms", "2")], start=1), below=9)
    assert [*earlier.configs.values.values(), *replay.image().configs.values.values()] == ["1", "2"]
