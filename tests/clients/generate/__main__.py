"""`python -m tests.clients.generate` writes `targets.json`: the API versions that each release of Kafka accepts.

They are read from the message schemas in the jars that Kafka publishes, and from `ApiKeys` in the same jars which of
the APIs only nodes of a cluster call. Needs Java, and Maven once, for the jars. A broker is not asked: one of 4.x
advertises Produce 0-2 for the sake of old librdkafka, and refuses them.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from tests.e2e.rig.releases import MIDDLE, NEWEST, OLD, RECENT
from tests.kraftlog.generate.definitions import jars, read

RELEASES = (OLD, "4.0.1", MIDDLE, "4.2.0", RECENT, NEWEST)
"""One of each minor release that is a target."""

TARGETS = Path(__file__).resolve().parents[3] / "operator/kafkafeatures/core/clients/targets.json"
SOURCE = Path(__file__).with_name("ClusterActions.java")

Rows = dict[str, dict[str, Any]]


def rows() -> dict[str, Rows]:
    """The APIs of each release by name: the first and the last version that a broker accepts, and who calls it."""
    return {
        version.rsplit(".", 1)[0]: accepted(jar) for version, jar in jars("kafka-clients", RELEASES, "clients").items()
    }


def accepted(jar: Path) -> Rows:
    """The APIs of one release, by their keys."""
    actions = cluster_actions(jar)
    defined = [schema for schema in read(jar, "common/message/") if schema["type"] == "request"]
    found = [
        (schema["apiKey"], schema["name"].removesuffix("Request"), row(schema, schema["apiKey"] in actions))
        for schema in defined
        if schema["validVersions"] != "none"
    ]
    return {name: entry for _, name, entry in sorted(found, key=lambda item: item[0])}


def row(schema: dict[str, Any], is_cluster_action: bool) -> dict[str, Any]:
    """One API. A last version that is unstable is refused unless a broker is set to accept it, so it does not count;
    an API that has no other version is of scope unstable.
    """
    first, _, last = schema["validVersions"].partition("-")
    lowest, highest = int(first), int(last or first)
    if schema.get("latestVersionUnstable"):
        if lowest == highest:
            return {"min": lowest, "max": highest, "scope": "unstable"}
        highest -= 1
    scope = "controller" if schema["listeners"] == ["controller"] else "broker" if is_cluster_action else "client"
    return {"min": lowest, "max": highest, "scope": scope}


def cluster_actions(jar: Path) -> set[int]:
    """The keys of the APIs that need the right ClusterAction."""
    command = ["java", "-cp", str(jar), str(SOURCE)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return set(map(int, done.stdout.split()))


def text(releases: dict[str, Rows]) -> str:
    """The file: one API a line."""
    blocks = []
    for release, apis in releases.items():
        lines = ",\n".join(f"    {json.dumps(name)}: {json.dumps(entry)}" for name, entry in apis.items())
        blocks.append(f"  {json.dumps(release)}: {{\n{lines}\n  }}")
    return "{\n" + ",\n".join(blocks) + "\n}\n"


if __name__ == "__main__":
    TARGETS.write_text(text(rows()))
    print(TARGETS)
