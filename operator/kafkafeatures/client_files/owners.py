"""Reads the owners of clients, in YAML: `owners: [{team: NAME, clientId: PATTERN, principal: PATTERN}]`."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import yaml
from msgspec import Struct

from kafkafeatures.core.clients.senders import ClientOwner
from kafkafeatures.core.words import printable


class OwnersRefused(Exception):
    """A text that does not have owners in the expected form, with the reason."""


class _MergeRefusingLoader(yaml.SafeLoader):
    """A safe loader that refuses merge keys: a few nested ones have billions of values."""

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Leave the merge keys of a mapping in it, where they are keys of an unknown type."""


class _Owners(Struct, frozen=True, forbid_unknown_fields=True):
    owners: tuple[ClientOwner, ...]


def parse_owners(data: bytes) -> Sequence[ClientOwner]:
    """The owners in their order: the first that matches a client counts. Raises OwnersRefused."""
    try:
        return msgspec.convert(yaml.load(data.decode(), _MergeRefusingLoader), type=_Owners).owners  # noqa: S506 - a safe one
    except (msgspec.ValidationError, yaml.YAMLError, UnicodeError, RecursionError, ValueError) as error:
        reason = printable(" ".join(str(error).split()))[:200] or type(error).__name__
    except (LookupError, AttributeError, TypeError, ArithmeticError):  # such as !!bool on another text
        reason = "a value does not match its tag"
    raise OwnersRefused(f"{reason}; expected owners: [{{team: NAME, clientId: PATTERN, principal: PATTERN}}]")
