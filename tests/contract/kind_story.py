"""Two brokers that are gone are unregistered by a kind of stage of its own: production's controller and commands.

`python -m tests.contract.kind_story FOLDER` prints what came of it as JSON; FOLDER takes the files of the commands.
Called by `test_new_effect.py` in a copy of this tree that has the kind of `tests/contract/third_kind/`. In this tree
its document would ask for nothing.
"""

from __future__ import annotations

import asyncio
import io
import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

from kafkafeatures.cli.document import plan as plan_command
from kafkafeatures.cli.kube import report as report_command
from kafkafeatures.cli.kube import status as status_command
from kafkafeatures.cli.kube.resource import KubeResource
from kafkafeatures.cli.shell.main import main
from kafkafeatures.core.facts.readings import Failure, FailureKind, Role
from tests.kafkafeatures.reconcile.rig import Kafka, Rig
from tests.kafkasim.clusters import plan
from tests.simulated.orders import Orders

LEVELS = {"levels": [{"name": "metadata.version", "level": 21}]}
CONSENTS = ["broker.8:1->0", "broker.9:1->0"]
DOCUMENT = {
    "apiVersion": "kafkafeatures.dev/v1alpha1",
    "kind": "KafkaFeatures",
    "metadata": {"name": "orders", "namespace": "kafka"},
    "spec": {"cluster": {"bootstrapServers": "kafka:9092"}, "features": LEVELS, "consents": CONSENTS},
}
MOST = 20


class Ghosts(Kafka):
    """Brokers 8 and 9 are registered, and nothing else is there of them. `requests`: what reached the controller; the
    answer to the first one is lost.
    """

    def __init__(self) -> None:
        super().__init__({"metadata.version": 21}, plan(ghosts=((Role.BROKER, 8, "4.2"), (Role.BROKER, 9, "4.2"))))
        self.requests: list[str] = []

    async def unregister(self, role: Role, node_id: int) -> Failure | None:
        """Does what `Cluster.unregister` does over the wire."""
        leader = self.world.active_node
        assert leader is not None
        self.requests.append(f"Unregister{role.value} {node_id}")
        answer = self.world.unregister_broker(leader, node_id)
        assert answer.verdict.error_code == 0
        self._pass_time(10)
        return Failure(FailureKind.TIMED_OUT, "kafka:9092", "no answer") if len(self.requests) == 1 else None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        """Close nothing: there is no connection."""


class Shell:
    """The commands, as people type them, with the simulated API server and the simulated cluster behind them."""

    def __init__(self, api: Orders, kafka: Kafka) -> None:
        kube = SimpleNamespace(
            resource=lambda name: KubeResource(api.object),
            events=lambda namespace, name: api.server.events(),
            version=lambda: "v1.34.0",
            deployment=lambda namespace, name: None,
            pod=lambda namespace, name: None,
        )

        @contextmanager
        def connected(arguments: object) -> Iterator[SimpleNamespace]:
            yield kube

        for command in (plan_command, status_command, report_command):
            vars(command)["connected"] = connected
        vars(plan_command)["cluster_of"] = lambda _: kafka

    def types(self, *words: str) -> str:
        """The output of a command."""
        with redirect_stdout(io.StringIO()) as printed:
            code = main([*words, "--debug"])
        assert code == 0, printed.getvalue()
        return printed.getvalue()


async def until(rig: Rig, *results: str) -> None:
    """Reconcile until steps have ended so."""
    for _ in range(MOST):
        await rig.work()
        if [one["result"] for one in rig.api.status.get("history", ())] == [*results]:
            return
    raise AssertionError(rig.api.status)


def status_of(api: Orders) -> Mapping[str, Any]:
    """The part of the status that is compared."""
    status, standing = api.status, api.status.get("plan") or {}
    return {
        "ready": api.condition("Ready")["reason"],
        "own": [api.condition("BrokersUnregistered")[name] for name in ("status", "message")],
        "plan": standing.get("hash"),
        "stages": [one["kind"] for one in standing.get("stages", ())],
        "steps": [(one["detail"], one["state"]) for one in standing.get("steps", ())],
        "intents": [one["kind"] for one in status.get("intents", ())],
        "history": [(one["kind"], one["target"], one["result"]) for one in status.get("history", ())],
        "changeCount": status.get("changeCount", 0),
        "spent": status.get("spentConsents", []),
    }


def story(folder: Path) -> Mapping[str, Any]:
    """Run a document through all parts, from the document to the page."""
    api, kafka = Orders(), Ghosts()
    rig, shell, found = Rig(api, kafka), Shell(api, kafka), dict[str, Any]()
    file, page = folder / "orders.json", folder / "orders.html"
    file.write_text(json.dumps(DOCUMENT))
    found["plan of the file"] = json.loads(shell.types("plan", "-f", str(file), "-o", "json"))
    found["plan of the file, for people"] = shell.types("plan", "-f", str(file))
    api.edit(features=LEVELS, consents=[*CONSENTS, "broker.1:1->0"])
    asyncio.run(rig.work())
    found["blocked"] = [(one["kind"], one["message"], one["remedy"]) for one in api.status["blockers"]]
    api.edit(consents=CONSENTS, mode="Observe")
    asyncio.run(rig.work())
    found["observed"] = status_of(api)
    found["plan"] = shell.types("plan", "orders", "-n", "kafka")
    assert not kafka.requests
    api.edit(mode="Apply")
    asyncio.run(rig.work())
    found["sent"] = status_of(api)
    found["status"] = shell.types("status", "orders", "-n", "kafka")
    looks = kafka.looks
    asyncio.run(until(rig, "Applied"))
    found["looks"] = kafka.looks - looks
    found["one"] = status_of(api)
    asyncio.run(until(rig, "Applied", "Applied"))
    asyncio.run(rig.work())
    found["both"] = status_of(api)
    shell.types("report", "orders", "-n", "kafka", "--html", str(page))
    found["page"] = page.read_text()
    found["events"] = [(one["reason"], one["action"], one["note"]) for one in api.server.events()]
    found["requests"] = kafka.requests
    return found


if __name__ == "__main__":
    print(json.dumps(story(Path(sys.argv[1]))))
