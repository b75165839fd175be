"""Reads the owners of clients, in YAML: `owners: [{team: NAME, clientId: PATTERN, principal: PATTERN}]`.

Called by `cli/clients/request_logs.py` and `config_map.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import yaml
from msgspec import Struct

from kafkafeatures.core.clients.senders import ClientOwner
from kafkafeatures.core.words import printable


class OwnersRefused(Exception):
    """A text that does not have owners in the expected form, with the reason."""


class _Owners(Struct, frozen=True, forbid_unknown_fields=True):
    owners: tuple[ClientOwner, ...]


def parse_owners(data: bytes) -> Sequence[ClientOwner]:
    """The owners in their order: the first that matches a client counts. Raises OwnersRefused."""
    try:
        return msgspec.convert(_document(data), type=_Owners).owners
    except (msgspec.ValidationError, yaml.YAMLError, UnicodeError, RecursionError, ValueError) as error:
        reason = printable(" ".join(str(error).split()))[:200] or type(error).__name__
        text = f"{reason}; expected owners: [{{team: NAME, clientId: PATTERN, principal: PATTERN}}]"
        raise OwnersRefused(text) from None


def _document(data: bytes) -> Any:
    return yaml.safe_load(data.decode())
