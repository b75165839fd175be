"""The known inter.broker.protocol.versions and their order. Compared with Kafka 3.9.2 by
`tests/e2e/kafka/test_ibp_by_hand.py`.
"""

from __future__ import annotations

import pytest

from kafkafeatures.core.ibp.versions import Version, version_of


def version(text: str) -> Version:
    parsed = version_of(text)
    assert parsed is not None, text
    return parsed


@pytest.mark.parametrize(
    ("text", "same"),
    [("3.9", "3.9-IV0"), ("3.7", "3.7-IV4"), ("2.8", "2.8-IV1"), ("0.10.0", "0.10.0-IV1"), ("3.7.1", "3.7")],
)
def test_a_release_stands_for_its_newest_version(text: str, same: str) -> None:
    assert version(text) == version(same)
    assert len({version(text), version(same)}) == 1


def test_versions_are_in_the_order_in_which_kafka_brought_them() -> None:
    names = ["0.8.2", "0.10.2", "0.11.0", "1.1", "2.1-IV0", "2.1", "3.3-IV3", "3.4", "3.7-IV3", "3.7", "3.8", "3.9"]
    assert sorted(map(version, reversed(names))) == [version(name) for name in names]


@pytest.mark.parametrize("text", ["", "3", "three", "3.9-IV", "3.9-IV0 ; rm", "-1.0", "3.9\n3.8", "9" * 40])
def test_an_invalid_name_is_no_ibp_version(text: str) -> None:
    assert version_of(text) is None


@pytest.mark.parametrize(("text", "is_known"), [("3.9", True), ("3.9-IV1", False), ("4.0", False), ("2.9", False)])
def test_only_versions_that_kafka_has_released_are_known(text: str, *, is_known: bool) -> None:
    assert version(text).is_known is is_known
