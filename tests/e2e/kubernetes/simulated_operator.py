"""The operator as shipped, on simulated clusters: one for each bootstrap address, in the same process."""

from __future__ import annotations

import asyncio
import sys

from kafkafeatures import app
from kafkafeatures.api.values import replace
from kafkafeatures.environment import SYSTEM
from kafkafeatures.kafka.base.settings import ClusterSettings
from kafkafeatures.logs import configure
from kafkafeatures.settings import OperatorSettings
from kafkasim.ports import SimulatedCluster
from tests.kafkasim.clusters import plan, settle, world


class Cluster(SimulatedCluster):
    """A cluster of one controller and one broker, at 3.9 and able to do 4.1."""

    def __init__(self, settings: ClusterSettings, recorder: object) -> None:
        seed = settings.bootstrap_servers[0].port
        made = replace(plan({1: "4.1"}, {3001: "4.1"}, metadata_version=21), cluster_id=None)
        super().__init__(settle(world(made, seed)))

    async def unchanged(self) -> bool:
        """Whether the world is as it was made: there are no other clients in it."""
        return self.world.active is not None

    def release_partitions(self, *, at_once: bool = True) -> None:
        """Nothing is kept."""

    async def release_idle_connections(self) -> None:
        """There are no connections."""

    async def close(self) -> None:
        """There is nothing to give up."""


def main() -> None:
    port = int(sys.argv[sys.argv.index("--listen") + 1].rpartition(":")[2])
    configure("json")
    asyncio.run(
        app.run(OperatorSettings(listen_host="127.0.0.1", listen_port=port), opener=Cluster, environment=SYSTEM)
    )


if __name__ == "__main__":
    main()
