"""The imports that each part of the code may have. An import that is not listed here fails the test.

Imports inside of functions, and for types only, count as well. import-linter checks the order of the large packages,
which is in `pyproject.toml`.
"""

from __future__ import annotations

import sys
from functools import cache

import grimp
import pytest

PRODUCT = "kafkafeatures"
PACKAGES = (PRODUCT, "kraftlog", "kafkasim", "featurelog")

ROOMS = {
    # What the operator knows. These packages are pure, and each imports only packages above it.
    "api": "",
    "core.words": "",
    "core.clients": "api",
    "core.facts": "api core.words core.clients kraftlog.image kraftlog.partitions",
    "core.engine": "api core.words core.facts",
    "core.levels": "api core.words core.facts core.engine",
    # Before a restart, it checks that the levels that are still to be raised remain possible.
    "core.roll": "api core.words core.clients core.facts core.engine core.levels",
    "core.migration": (
        "api core.words core.facts core.engine core.roll kraftlog.image kraftlog.partitions kraftlog.clients "
        "kraftlog.digests kraftlog.redaction"
    ),
    "core.ibp": "api core.facts core.engine core.roll core.migration",
    "core.kinds": "api core.facts core.engine core.levels core.roll core.migration core.ibp",
    "core.resolve": "api core.facts core.engine core.ibp.versions core.roll.drivers",
    "core.ports": "api core.clients core.facts core.engine core.levels core.roll core.migration",
    "core.report": "api core.words core.clients core.kinds core.facts core.engine core.levels core.migration",
    # Kafka and Kubernetes, behind their ports.
    "environment": "",
    "client_targets": "core.clients",
    "client_files": "api.values core.clients core.words",
    "kafka.base": "api core.words core.facts environment kafka.wire",
    "kafka.wire": "api core.facts environment kafka.base version",
    "kafka.probe": "api core kraftlog kafka.base kafka.wire",
    "kafka.log": "api core.facts kraftlog environment kafka.base kafka.wire kafka.probe",
    "kafka.partitions": "api core.words core.facts kraftlog kafka.base kafka.wire kafka.probe",
    "kafka.recorder": "api core.words core.facts kraftlog environment kafka.base kafka.wire kafka.log",
    "kafka.requests": "api core kafka.base kafka.wire kafka.probe",
    "kafka.cluster": "api core environment kafka",
    "kube": "api core environment version",
    "zookeeper": (
        "core.words core.facts core.engine core.migration core.ports environment kafka.base kafka.wire kraftlog.image"
    ),
    "prometheus": "core.clients core.words core.facts core.ports environment kafka.base.errors kafka.wire version",
    # The operator. It reaches Kafka and Kubernetes through their ports: of `kafka` it knows how a client is set up.
    "reconcile": (
        "api core client_files client_targets environment kube version kafka.base.settings kafka.base.errors "
        "kafka.base.threads kafka.wire.addresses kafka.wire.krb5_conf kafka.wire.pem kafka.wire.tls zookeeper.ensemble "
        "prometheus.settings"
    ),
    "resources": "environment kube reconcile",
    "handlers": "api environment kube",
    "notify": "api core environment kube version",
    "health": "",
    "metrics": "api environment kube kafka.base kafka.recorder version",
    "settings": "api kafka notify",
    "logs": "",
    "interrupts": "",
    "app": (
        "core.ports environment handlers health kafka kube metrics notify prometheus reconcile resources settings "
        "version zookeeper"
    ),
    # The command line.
    "__main__": "cli.shell cli.kube.offers interrupts",
    "cli.shell": "api core interrupts version",
    "cli.log": "api core kraftlog cli.shell",
    "cli.cluster": "api core environment kafka zookeeper reconcile interrupts cli.shell cli.kube.strimzi_settings",
    "cli.clients": (
        "api core client_files client_targets kraftlog kafka prometheus cli.shell cli.log cli.cluster cli.pages"
    ),
    "cli.migration": "api core environment kafka zookeeper reconcile cli.shell cli.cluster cli.document",
    "cli.document": "api core environment kafka zookeeper reconcile interrupts cli.shell cli.cluster cli.kube",
    "cli.describe": (
        "api core environment kafka.base.api_names kafka.base.settings cli.shell cli.log cli.cluster cli.kube"
    ),
    "cli.pages": "api core kraftlog cli.shell cli.kube cli.document cli.cluster",
    "cli.kube": (
        "api core environment interrupts kafka kraftlog kube notify reconcile app logs settings version cli.shell "
        "cli.cluster cli.document cli.pages"
    ),
    "cli.serve": "api core environment kafka kraftlog cli.shell cli.cluster cli.kube cli.pages",
    "cli.pipeline": "api core client_targets featurelog cli.shell cli.pages",
    "cli.demo": "api core environment reconcile cli.shell cli.cluster cli.kube kafkasim",
    # Beside the operator: metadata logs, the pipeline that makes tables of them, the simulator.
    "kraftlog": "",
    "featurelog": "api core client_files kraftlog version",
    "kafkasim": "api core environment kafka kraftlog",
}
"""Room -> what it may import, each with all that is below it. A name without a package is of `kafkafeatures`."""

LIBRARIES = {
    "aiohttp": "handlers health kube.client kube.errors kube.watches notify.webhook",
    "cronsim": "core.engine.windows",
    "deltalake": "featurelog.delta",
    "gssapi": "kafka.wire.gssapi_process",
    "google_crc32c": "kraftlog featurelog.clients kafkasim.fleet",
    "kio": "kafka.wire.unregister_controller kafka.wire.api_versions_5 kafkasim.wire",
    "kazoo": "zookeeper",
    "kopf": "handlers",
    "kubernetes": "kube.client kube.errors",
    "markupsafe": "cli.shell.html_parts",
    "msgspec": (
        "api client_files core environment health kafka kube notify prometheus reconcile settings zookeeper cli "
        "kafkasim kraftlog.fast_json featurelog.ledger"
    ),
    "numpy": (
        "core.facts.replica_blocks core.facts.replication core.migration.copied.expected core.roll.advice "
        "core.roll.planner kafka.partitions kraftlog featurelog kafkasim"
    ),
    "prometheus_client": "health metrics",
    "py4j": "featurelog.spark",
    "pyarrow": "kraftlog featurelog",
    "pykube": "cli.kube",
    "pyspark": "featurelog.spark",
    "pythonjsonlogger": "logs",
    "requests": "cli.kube.api",
    "rich": "cli",
    "scramp": "kafka.wire.sasl",
    "urllib3": "cli.kube.api cli.kube.login",
    "yaml": "cli client_files.owners reconcile.file_store featurelog.config kafkasim.fleet",
}
"""Library -> what may import it."""

PURE = ("api", "core")
HARMLESS = frozenset(
    "__future__ base64 collections contextlib dataclasses datetime difflib enum fnmatch functools hashlib heapq "
    "ipaddress itertools json math operator re shlex types typing zoneinfo".split()
)
"""Modules of the standard library that a pure package may import: without I/O, clock and randomness."""


def _name(module: str) -> str:
    return "version" if module == PRODUCT else module.removeprefix(f"{PRODUCT}.")


def _is_in(module: str, rooms: str) -> bool:
    return any(f"{module}.".startswith(f"{one}.") for one in rooms.split())


@cache
def room(module: str) -> str:
    return max((one for one in ROOMS if _is_in(module, one)), key=len, default="")


@cache
def imports() -> tuple[tuple[str, str], ...]:
    """The imports of the product from another package: importer, imported."""
    graph = grimp.build_graph(*PACKAGES, include_external_packages=True, cache_dir=None)
    pairs = (
        (_name(one), _name(other)) for one in graph.modules for other in graph.find_modules_directly_imported_by(one)
    )
    return tuple(sorted((one, other) for one, other in pairs if not room(one) or room(one) != room(other)))


def is_allowed(one: str, other: str) -> bool:
    if other in LIBRARIES:
        return _is_in(one, LIBRARIES[other])
    if other in sys.stdlib_module_names:
        return other in HARMLESS or not _is_in(one, " ".join(PURE))
    return _is_in(other, ROOMS[room(one)])


def test_every_module_belongs_to_a_package_of_the_list() -> None:
    assert {one for one, _ in imports() if not room(one)} <= {"version"}


def test_every_import_is_allowed() -> None:
    assert not [f"{one} -> {other}" for one, other in imports() if not is_allowed(one, other)]


@pytest.mark.parametrize("name", ROOMS)
def test_every_import_that_the_list_allows_is_used(name: str) -> None:
    needed = [other for one, other in imports() if room(one) == name]
    assert not [one for one in ROOMS[name].split() if not any(_is_in(other, one) for other in needed)]


@pytest.mark.parametrize("library", LIBRARIES)
def test_every_use_of_a_library_that_the_list_allows_exists(library: str) -> None:
    needed = [one for one, other in imports() if other == library]
    assert not [one for one in LIBRARIES[library].split() if not any(_is_in(each, one) for each in needed)]


def test_a_package_of_core_imports_only_packages_above_it_in_the_list() -> None:
    """This order also excludes that two packages import each other."""
    order = [one for one in ROOMS if one == "api" or one.startswith("core.")]
    for place, one in enumerate(order):
        assert {each for each in ROOMS[one].split() if each in order} <= set(order[:place])


def test_nothing_but_a_command_of_people_sets_the_level_of_a_logger() -> None:
    module = "kafka.requests.request_log_level"
    assert {room(one) for one, other in imports() if other == module} == {"cli.clients"}
