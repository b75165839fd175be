"""The network of one node: a namespace of its own, and a pair of interfaces between it and this machine.

    this machine 198.18.100.1 ── 198.18.100.2 the node ── bridge 198.18.101.1 ── 198.18.101.x pods

Bridges, packet filter rules and kernel settings that a node makes exist in its namespace only and end with it. Nothing
leaves this machine: the namespace has no default route, and here the whole of 198.18.0.0/15, which is reserved for
benchmarks, is unreachable where the node does not claim it. That route stays; everything else is taken away.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager

from tests.e2e.rig.kubernetes.binaries import CACHE, install_packages, run
from tests.e2e.rig.kubernetes.cluster import SERVICES
from tests.e2e.rig.process import wait_until
from tests.e2e.rig.releases import MissingTool

RESERVED = "198.18.0.0/15"
HOST, NODE, PODS = "198.18.100.1", "198.18.100.2", "198.18.101.0/24"
NAMESPACE = "kafka-features"
OUTSIDE, INSIDE = "kf-host", "kf-node"


@contextmanager
def network() -> Iterator[None]:
    """The interfaces are up, and the namespace waits for its node. One at a time on a machine: the second waits."""
    if os.geteuid() != 0:
        raise MissingTool("the tests on a Kubernetes node need root")
    install_packages()
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "node.lock").open("w") as lock:
        wait_until("the other node of this machine is gone", lambda: _taken(lock.fileno()), 600)
        _remove()  # what a killed run left
        try:
            _make()
            yield
        finally:
            _remove()


def _taken(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _make() -> None:
    run("ip", "netns", "add", NAMESPACE)
    run("ip", "link", "add", OUTSIDE, "type", "veth", "peer", "name", INSIDE, "netns", NAMESPACE)
    run("ip", "address", "add", f"{HOST}/30", "dev", OUTSIDE)
    run("ip", "link", "set", OUTSIDE, "up")
    run("ip", "route", "replace", "unreachable", RESERVED)
    run("ip", "route", "replace", PODS, "via", NODE)
    run("ip", "-n", NAMESPACE, "link", "set", "lo", "up")
    run("ip", "-n", NAMESPACE, "address", "add", f"{NODE}/30", "dev", INSIDE)
    run("ip", "-n", NAMESPACE, "link", "set", INSIDE, "up")
    # The packet filter rewrites Service addresses, but only packets that have a route get that far.
    run("ip", "-n", NAMESPACE, "route", "add", f"{SERVICES}.0/24", "dev", INSIDE)
    # A pod that reaches another one through a Service must not learn the short way: it would miss the rewriting.
    for setting in ("ip_forward=1", "conf.all.send_redirects=0", "conf.default.send_redirects=0"):
        run("ip", "netns", "exec", NAMESPACE, "sysctl", "-qw", f"net.ipv4.{setting}")


def _remove() -> None:
    """The interfaces first: with the namespace they would go too, some time later."""
    if f" {OUTSIDE}@" in run("ip", "link", "show", "type", "veth"):
        run("ip", "link", "delete", OUTSIDE)
    if NAMESPACE in run("ip", "netns", "list").split():
        run("ip", "netns", "delete", NAMESPACE)
