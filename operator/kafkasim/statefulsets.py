"""Plans of StatefulSets around a simulated cluster: nodes by ordinal, addresses, images, budgets, delays.

Called by `pods`, which runs them, and by tests and the demo, which plan a world and its pods together.

An image is a name and a tag. The tag is a Kafka release; with any other tag the process ends soon after each start. If
the tag ends in "-leaky" ("4.2.0-leaky"), the process ends after a longer while; if it ends in "-empty", the process
formats a new disk whenever it starts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from zlib import crc32

from msgspec import Struct

from kafkafeatures.core.facts.readings import Role
from kafkasim.releases import Release, release_named

NAMESPACE = "kafka"
PORT = 9092
LEAKY = "-leaky"
EMPTY = "-empty"


class PodTiming(Struct, frozen=True):
    """Times in ms, as recorded with real pods (tests/golden/restarts).

    recreate: from the end of a pod to its successor.
    start: from the creation of a pod until its container runs.
    boot_broker, boot_controller: from then on until the node begins to work.
    ready: from then on until the probe succeeds.
    crash: from the start of a container until a process that cannot run ends.
    leak: from the beginning of its work until a process that leaks memory ends.
    backoff: from the first crash until the next start; it doubles with each further one.
    registration: from the beginning of its work until a broker that is refused ends.
    grace: from the request to stop until the kill.
    update: until Kubernetes has seen a changed StatefulSet.
    """

    recreate: int = 450
    start: int = 720
    boot_broker: int = 7_000
    boot_controller: int = 1_700
    ready: int = 1_000
    crash: int = 2_000
    leak: int = 45_000
    backoff: int = 10_000
    registration: int = 60_000  # initial.broker.registration.timeout.ms
    grace: int = 300_000
    update: int = 200


class SetPlan(Struct, frozen=True):
    """A StatefulSet. `nodes`: ids by ordinal; each is a broker, a controller or both. `role`: "brokers" or
    "controllers", the list of a KafkaFeatures document that names the StatefulSet.
    """

    name: str
    role: str
    nodes: tuple[int, ...]
    image: str


@dataclass
class BudgetPlan:
    """A PodDisruptionBudget over StatefulSets."""

    name: str
    sets: tuple[str, ...]
    max_unavailable: int = 1
    always_allows_unhealthy: bool = True


def host_of(pod: str, stateful_set: str) -> str:
    """The name that a pod has by its headless service, and that its node advertises."""
    return f"{pod}.{stateful_set}.{NAMESPACE}.svc.cluster.local"


def addresses(sets: Sequence[SetPlan], roles: Sequence[Role] = tuple(Role)) -> dict[tuple[Role, int], tuple[str, int]]:
    """Addresses of the nodes of these StatefulSets, for the plan of a world: each role has a port of its own."""
    by_node: dict[tuple[Role, int], tuple[str, int]] = {}
    for plan in sets:
        for ordinal, node_id in enumerate(plan.nodes):
            at = host_of(f"{plan.name}-{ordinal}", plan.name)
            by_node |= {(role, node_id): (at, PORT + number) for number, role in enumerate(roles)}
    return by_node


def release_of(image: str) -> Release | None:
    """The release that an image runs; None if its tag is no release."""
    try:
        return release_named(image.rpartition(":")[2])
    except ValueError:
        return None


def revision_of(stateful_set: str, image: str) -> str:
    """The revision of a template. It depends only on the image, so a template that is reverted gets its old revision,
    like in Kubernetes.
    """
    return f"{stateful_set}-{crc32(image.encode()):08x}"
