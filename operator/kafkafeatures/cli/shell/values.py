"""argparse types for flags that several commands have: names, addresses, durations, hashes of plans, ids of nodes,
levels of features.
"""

from __future__ import annotations

import argparse
import re
from typing import NamedTuple

from kafkafeatures.api.names import MAX_NAME, METADATA_VERSION, NAME

_DURATION = re.compile(r"^([0-9]{1,15})(ms|s|m|h)?$")
_UNITS = {"ms": 0.001, "s": 1.0, None: 1.0, "m": 60.0, "h": 3600.0}
_MAX_SECONDS = 999_999 * 3600
_FEATURE_LEVEL = re.compile(r"^([a-z][a-z0-9._]{0,63})=([0-9A-Za-z.-]{1,32})$")
_MAX_LEVEL = 32_767
"""Highest level of a feature: Kafka has them as int16."""
_MAX_NODE_ID = 2**31 - 1
"""Highest id of a node: Kafka has them as int32."""


class FeatureLevel(NamedTuple):
    """A feature and its level, as flags have them."""

    name: str
    level: int

    def __str__(self) -> str:
        return f"{self.name}={self.level}"


def not_empty(text: str) -> str:
    """A text that is not empty. An empty one would count as none, and the command would use another cluster than the
    one that was meant, such as that of the default profile.
    """
    if not text.strip():
        raise argparse.ArgumentTypeError("the value is empty; if it is that of a shell variable, set the variable")
    return text


def duration(text: str) -> float:
    """The seconds of a duration such as 90s, 10m or 1h; a number without a unit is in seconds."""
    match = _DURATION.match(text)
    seconds = int(match[1]) * _UNITS[match[2]] if match else 0
    if not 0 < seconds <= _MAX_SECONDS:
        raise argparse.ArgumentTypeError(
            f"invalid duration {text[:20]!r}: expected 1ms to 999999h, such as 90s, 10m or 1h"
        )
    return seconds


def plan_hash(text: str) -> str:
    """The hash of a plan: at least its first eight digits."""
    if not re.fullmatch(r"sha256:[0-9a-f]{8,64}", text):
        raise argparse.ArgumentTypeError(f"invalid plan hash {text!r}: expected a hash such as sha256:9f3c1b7a")
    return text


def resource_name(text: str) -> str:
    """A name as Kubernetes takes it."""
    if not re.fullmatch(NAME, text) or len(text) > MAX_NAME:
        raise argparse.ArgumentTypeError(f"invalid resource name {text[:60]!r}: expected only a-z, 0-9, '-' and '.'")
    return text


def node_id(text: str) -> int:
    """The id of one node."""
    if not text.isascii() or not text.isdecimal() or len(text) > 10 or int(text) > _MAX_NODE_ID:
        raise argparse.ArgumentTypeError(f"invalid node id {text[:20]!r}: expected the id of one node, such as 4")
    return int(text)


def release(text: str) -> str:
    """A release of Kafka that is known here."""
    from kafkafeatures.core.facts.releases import bundle, kafka_in_confluent

    if bundle(text) is None:
        if kafka := kafka_in_confluent(text):
            message = f"release {text[:60]!r} is one of Confluent Platform, with Kafka {kafka}; use {kafka}"
            raise argparse.ArgumentTypeError(message)
        match = re.search(r"\d+\.\d+", text)
        meant = (
            f"did you mean {match[0]}?" if match and bundle(match[0]) else "kafkafeatures version lists those that are"
        )
        raise argparse.ArgumentTypeError(f"release {text[:60]!r} is not known to this version; {meant}")
    return text


def feature_level(text: str) -> FeatureLevel:
    """A feature and its level, from NAME=LEVEL."""
    match = _FEATURE_LEVEL.match(text)
    if not match:
        raise argparse.ArgumentTypeError(
            f"invalid feature level {text[:60]!r}: expected NAME=LEVEL, such as group.version=1"
        )
    level = level_in(match[1], match[2])
    if level is None:
        also = ", or a name such as 4.1-IV1" if match[1] == METADATA_VERSION else ""
        raise argparse.ArgumentTypeError(
            f"invalid level {match[2]!r} of {match[1]}: expected a number from 0 to {_MAX_LEVEL}{also}"
        )
    return FeatureLevel(match[1], level)


def level_in(feature: str, text: str) -> int | None:
    """The level of a feature: a number, or for metadata.version also a name or a release; None for any other text."""
    if text.isascii() and text.isdigit():
        return int(text) if int(text) <= _MAX_LEVEL else None
    from kafkafeatures.core.facts.releases import metadata_version_named

    version = metadata_version_named(text) if feature == METADATA_VERSION else None
    return version.level if version else None
