"""Settings of a node, as the node itself reports them: the value of each, and its source.

Values only. Read with DescribeConfigs of the node's own id (`kafka/probe/node_settings.py`), where a stage requires
them. Of a secret only the source is known, never the value.
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
    """Sources of a value, with their codes in `DescribeConfigsResponse.ConfigSource`; a lower code overrides a higher
    one. UNKNOWN: also any source that is not listed here.
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
    """One setting of one node.

    source: source of the value that applies.
    value: the value that applies; None for a secret, and for a setting without a value.
    is_read_only: no request can change it, so it stays for as long as the process runs.
    layers: the value that each source has; empty for a secret.
    """

    source: SettingSource
    value: str | None = None
    is_secret: bool = False
    is_read_only: bool = False
    layers: Mapping[SettingSource, str] = field(default_factory=dict)

    @property
    def without_requests(self) -> str | None:
        """The value that would remain if no request had set any; None where that is not known."""
        return self.layers.get(SettingSource.FILE, self.layers.get(SettingSource.DEFAULT))


class NodeSettings(Struct, frozen=True):
    """Settings of one node.

    at: IP address at which the process answered for this node's id, which proves its identity.
    of: settings by name, without those that the node does not know.
    """

    at: str
    of: Mapping[str, Setting]
