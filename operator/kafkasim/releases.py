"""Table of the simulated Kafka releases: feature ranges and API versions, one row for each release.

A new release is one row.

Sources: the feature ranges are those of the product (`core/facts/binaries.py`). API versions were read off real nodes
of 3.9, 4.1, 4.2, 4.3 and 4.4 (brokers and controllers); those of 4.0 are derived from the neighbouring rows and were
not compared with nodes.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct

from kafkafeatures.api.names import KRAFT_VERSION, METADATA_VERSION
from kafkafeatures.core.facts.binaries import supported_by
from kafkafeatures.core.facts.levels import VersionRange

__all__ = ["ELR_VERSION", "KRAFT_VERSION", "RELEASES", "Release", "release_named"]

ELR_VERSION = "eligible.leader.replicas.version"

Ranges = Mapping[str, VersionRange]
Apis = Mapping[int, VersionRange]


class Release(Struct, frozen=True):
    """One Kafka release. `number` is (major, minor), for rules that changed with a release."""

    number: tuple[int, int]
    features: Ranges
    broker_apis: Apis
    controller_apis: Apis
    bootstrap_level: int  # metadata.version of a cluster that was formatted with this release

    @property
    def name(self) -> str:
        """The release as it is commonly written: `4.2`."""
        return ".".join(map(str, self.number))


def _apis(text: str) -> dict[int, VersionRange]:
    """API versions by API key, from words such as `18:0-4`."""
    pairs = (word.split(":") for word in text.split())
    return {int(key): VersionRange(*map(int, versions.split("-"))) for key, versions in pairs}


_BROKER_39 = _apis(
    "0:0-11 1:0-17 2:0-9 3:0-12 8:0-9 9:0-9 10:0-6 11:0-9 12:0-4 13:0-5 14:0-5 15:0-5 16:0-5 17:0-1 18:0-4 19:0-7 "
    "20:0-6 21:0-2 22:0-5 23:0-4 24:0-5 25:0-4 26:0-4 27:0-1 28:0-4 29:0-3 30:0-3 31:0-3 32:0-4 33:0-2 34:0-2 35:0-4 "
    "36:0-2 37:0-3 38:0-3 39:0-2 40:0-2 41:0-3 42:0-2 43:0-2 44:0-1 45:0-0 46:0-0 47:0-0 48:0-1 49:0-1 50:0-0 51:0-0 "
    "55:0-2 57:0-1 60:0-1 61:0-0 64:0-0 65:0-0 66:0-1 68:0-0 69:0-0 74:0-0 75:0-0 80:0-0 81:0-0"
)
_CONTROLLER_39 = _apis(
    "1:0-17 7:0-3 17:0-1 18:0-4 19:0-7 20:0-6 29:0-3 30:0-3 31:0-3 32:0-4 33:0-2 36:0-2 37:0-3 38:0-3 39:0-2 40:0-2 "
    "41:0-3 43:0-2 44:0-1 45:0-0 46:0-0 49:0-1 50:0-0 51:0-0 52:0-1 53:0-1 54:0-1 55:0-2 56:0-3 57:0-1 58:0-0 59:0-1 "
    "60:0-1 62:0-4 63:0-1 64:0-0 67:0-0 70:0-0 73:0-0 80:0-0 81:0-0 82:0-0"
)
_BROKER_42 = _apis(
    "0:0-13 1:4-18 2:1-11 3:0-13 8:2-10 9:1-10 10:0-6 11:0-9 12:0-4 13:0-5 14:0-5 15:0-6 16:0-5 17:0-1 18:0-4 19:2-7 "
    "20:1-6 21:0-2 22:0-5 23:2-4 24:0-5 25:0-4 26:0-5 27:1-2 28:0-5 29:1-3 30:1-3 31:1-3 32:1-4 33:0-2 34:1-2 35:1-4 "
    "36:0-2 37:0-3 38:1-3 39:1-2 40:1-2 41:1-3 42:0-2 43:0-2 44:0-1 45:0-1 46:0-0 47:0-0 48:0-1 49:0-1 50:0-0 51:0-0 "
    "55:0-2 57:0-2 60:0-2 61:0-0 64:0-0 65:0-0 66:0-2 68:0-1 69:0-1 74:0-1 75:0-0 76:1-1 77:1-1 78:1-2 79:1-2 80:0-1 "
    "81:0-0 83:0-0 84:0-0 85:0-1 86:0-0 87:0-1 88:0-0 89:0-0 90:0-1 91:0-0 92:0-0"
)
_CONTROLLER_42 = _apis(
    "1:4-18 17:0-1 18:0-4 19:2-7 20:1-6 29:1-3 30:1-3 31:1-3 32:1-4 33:0-2 36:0-2 37:0-3 38:1-3 39:1-2 40:1-2 41:1-3 "
    "43:0-2 44:0-1 45:0-1 46:0-0 49:0-1 50:0-0 51:0-0 52:0-2 53:0-1 54:0-1 55:0-2 56:2-3 57:0-2 58:0-0 59:0-1 60:0-2 "
    "62:0-4 63:0-1 64:0-0 67:0-0 70:0-0 73:0-0 80:0-1 81:0-0 82:0-0"
)


def _but(apis: Apis, changes: str, without: tuple[int, ...] = ()) -> dict[int, VersionRange]:
    """The APIs of another release, with changed or added versions, and without some."""
    changed = {**apis, **_apis(changes)}
    return {key: versions for key, versions in changed.items() if key not in without}


_CONTROLLER_41 = _but(_CONTROLLER_42, "80:0-0")
_BROKER_41 = _but(_BROKER_42, "2:1-10 8:2-9 9:1-9 27:1-1 78:1-1 79:1-1 80:0-0 85:0-0 87:0-0 90:0-0", without=(88, 89))
_CONTROLLER_40 = _but(_CONTROLLER_41, "1:4-17 45:0-0 52:0-2")
# 4.0 does not offer the APIs of share groups (76 to 79, 83 to 87, 90 to 92), which are early access there.
_BROKER_40 = _but(
    _BROKER_41,
    "0:0-12 1:4-17 45:0-0 66:0-1 74:0-0",
    without=(76, 77, 78, 79, 83, 84, 85, 86, 87, 90, 91, 92),
)
_CONTROLLER_43, _BROKER_43 = _but(_CONTROLLER_42, "63:0-2"), _but(_BROKER_42, "35:1-5")
_CONTROLLER_44 = _but(_CONTROLLER_43, "18:0-5 94:0-0")
_BROKER_44 = _but(_BROKER_43, "18:0-5 28:0-6 42:0-3 88:0-1 89:0-1 93:0-0 94:0-0")


def _release(number: tuple[int, int], broker: Apis, controller: Apis) -> Release:
    ranges = supported_by(".".join(map(str, number)))
    assert ranges is not None  # noqa: S101 - the table of the product has every release that is simulated
    bootstrap = ranges[METADATA_VERSION].max
    return Release(number, ranges, MappingProxyType(dict(broker)), MappingProxyType(dict(controller)), bootstrap)


RELEASES: Mapping[str, Release] = MappingProxyType(
    {
        release.name: release
        for release in (
            _release((3, 9), _BROKER_39, _CONTROLLER_39),
            _release((4, 0), _BROKER_40, _CONTROLLER_40),
            _release((4, 1), _BROKER_41, _CONTROLLER_41),
            _release((4, 2), _BROKER_42, _CONTROLLER_42),
            _release((4, 3), _BROKER_43, _CONTROLLER_43),
            _release((4, 4), _BROKER_44, _CONTROLLER_44),
        )
    }
)


def release_named(name: str) -> Release:
    """The row of a release such as "4.2", also for "4.2.0". Raises ValueError for one that is not simulated."""
    release = RELEASES.get(".".join(name.split(".")[:2]))
    if release is None:
        raise ValueError(f"Kafka {name} is not simulated; expected one of {', '.join(RELEASES)}")
    return release
