"""The API versions that releases of Kafka accept, as this version ships them.

`core/clients/targets.py` says what the table means; `core` itself reads no file, so this module does.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from kafkafeatures.core.clients.targets import Targets, parse_targets


@cache
def client_targets() -> Targets:
    """The table of this version."""
    return parse_targets(files("kafkafeatures.core.clients").joinpath("targets.json").read_bytes())
