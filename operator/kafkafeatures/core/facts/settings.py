"""Settings of a node, as the node itself gives them: the value of each name, and where it comes from.

Read with DescribeConfigs of the node's own id (`kafka/probe/node_settings.py`), and only where a stage demands it. A
secret is known by its source alone: that it is set, and where, never what it is. Pure values, nothing is judged here.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

from msgspec import Struct, field

SNAPSHOT_INTERVAL = "metadata.log.max.snapshot.interval.ms"
MIN_INSYNC_REPLICAS = "min.insync.replicas"
IBP = "inter.broker.protocol.version"
PROCESS_ROLES = "process.roles"
AUTHORIZER = "authorizer.class.name"
QUORUM_VOTERS = "controller.quorum.voters"
QUORUM_SERVERS = "controller.quorum.bootstrap.servers"


class SettingSource(IntEnum):
    """Sources of a value, the strongest first; `DescribeConfigsResponse.ConfigSource` has the codes.

    UNKNOWN: from somewhere that this release does not know.
    """

    UNKNOWN = 0
    NODE = 2  # a request set it for this node
    ALL_BROKERS = 3  # a request set it for every broker
    FILE = 4  # the file that the process was started with
    DEFAULT = 5

    @classmethod
    def _missing_(cls, value: object) -> SettingSource:
        return cls.UNKNOWN


class Setting(Struct, frozen=True):
    """One setting. `value`: None of a secret, or where it has none. `layers`: what each source says; empty of a secret.

    `is_read_only`: only the file says it, or the default, so it holds for as long as the process runs.
    """

    source: SettingSource
    value: str | None = None
    is_secret: bool = False
    is_read_only: bool = False
    layers: Mapping[SettingSource, str] = field(default_factory=dict)

    @property
    def without_requests(self) -> str | None:
        """The value that remains once everything is taken back that requests have set."""
        return self.layers.get(SettingSource.FILE, self.layers.get(SettingSource.DEFAULT))


class NodeSettings(Struct, frozen=True):
    """`at`: the IP address at which the process answered for this id, which proves who it is. A name that the node does
    not know is not in `of`.
    """

    at: str
    of: Mapping[str, Setting]
