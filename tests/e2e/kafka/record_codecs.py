"""Writes `tests/golden/codecs` anew: batches that a real broker compressed. `python -m tests.e2e.kafka.record_codecs`

A controller compresses nothing, so they are those of topics, each with its `compression.type`; what is in them are
records of a metadata log.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

from kafka import KafkaProducer

from tests.e2e.rig.cluster import Cluster
from tests.e2e.rig.held import hold_topic
from tests.e2e.rig.releases import NEWEST
from tests.kraftlog.golden import CODECS, COMPRESSED


def main() -> None:
    """One segment for each codec."""
    CODECS.mkdir(exist_ok=True)
    with TemporaryDirectory() as folder:
        with Cluster(Path(folder), NEWEST, controllers=1, brokers=1) as cluster:
            (broker,) = cluster.brokers
            producer = KafkaProducer(bootstrap_servers=f"127.0.0.1:{broker.ports[cluster.internal]}", linger_ms=1000)
            for codec in ("gzip", "snappy", "lz4", "zstd"):
                hold_topic(cluster, codec, {0: [broker.id]}, **{"compression.type": codec})
                for value in COMPRESSED:
                    producer.send(codec, value)
                producer.flush()
            producer.close()
        for codec in ("gzip", "snappy", "lz4", "zstd"):
            shutil.copy(broker.folder / "data" / f"{codec}-0" / f"{0:020}.log", CODECS / f"{codec}.log")


if __name__ == "__main__":
    main()
