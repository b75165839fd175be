"""Preflight of a migration: known causes of later failures, all reported at once, before anything is changed.

Pure. Called by `core/migration/checks.py`. `findings` runs all checks of a table in order, so no blocker hides another.
The checks run on the way to PreMigration, for brokers and ZooKeeper, and again on the way to Copied, when there are
controllers. A check that lacks a reading yields a blocker: missing information never allows a step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from msgspec import Struct

from kafkafeatures.core.engine.blockers import Blocker
from kafkafeatures.core.facts.settings import IBP
from kafkafeatures.core.migration import preflight_controllers as controllers
from kafkafeatures.core.migration import preflight_nodes as nodes
from kafkafeatures.core.migration import preflight_znodes as znodes
from kafkafeatures.core.migration.positions import Position
from kafkafeatures.core.migration.preflight_input import PreflightInput
from kafkafeatures.core.migration.settings import (
    ALLOW_EVERYONE,
    AUTHORIZER,
    CONNECT,
    DECIDED,
    LISTENER,
    PROTOCOLS,
    QUORUM_LISTENERS,
    SUPER_USERS,
)

NOT_DEFINED = frozenset({SUPER_USERS, ALLOW_EVERYONE})
"""Settings that a node reports only if they are set: Kafka itself does not define them."""

NAMES = NOT_DEFINED | {
    nodes.BROKER_ID, nodes.GENERATED, nodes.RESERVED, nodes.LOG_DIRS, nodes.ROLES, IBP, LISTENER, CONNECT, AUTHORIZER,
    controllers.PROTOCOL, PROTOCOLS, controllers.ENCODER, *controllers.TOKEN_KEYS, *DECIDED,
    *controllers.OF_ITS_CLIENT, controllers.MECHANISM, QUORUM_LISTENERS,
}  # fmt: skip
"""Settings that are read of each node."""

Check = Callable[[PreflightInput], Iterable[Blocker]]


class PreflightRow(Struct, frozen=True):
    """A check of the preflight, and the ends of the ways on which it is made."""

    check: Check
    ends: tuple[Position, ...]


def every_setting_is_known(preflight: PreflightInput) -> Iterator[Blocker]:
    """Each node reported all settings of `NAMES` that Kafka defines."""
    return nodes.every_setting_is_known(preflight, NAMES - NOT_DEFINED)


BOTH = (Position.PRE_MIGRATION, Position.COPIED)
WITHOUT_CONTROLLERS = (Position.PRE_MIGRATION,)
WITH_CONTROLLERS = (Position.COPIED,)

ROWS = (
    PreflightRow(nodes.there_are_nodes, BOTH),
    PreflightRow(znodes.the_ensemble_can_be_read, BOTH),
    PreflightRow(znodes.it_is_the_ensemble_of_this_cluster, BOTH),
    PreflightRow(nodes.every_broker_was_asked, BOTH),
    PreflightRow(nodes.every_node_says_who_it_is, BOTH),
    PreflightRow(nodes.every_node_runs_kafka_3_9, BOTH),
    PreflightRow(every_setting_is_known, BOTH),
    PreflightRow(nodes.every_protocol_is_set_and_the_same, BOTH),
    PreflightRow(nodes.every_id_is_set, BOTH),
    PreflightRow(nodes.several_log_dirs_are_possible, BOTH),
    PreflightRow(nodes.ids_are_apart, WITH_CONTROLLERS),
    PreflightRow(nodes.no_node_is_combined, WITH_CONTROLLERS),
    PreflightRow(nodes.the_quorum_has_the_protocol, WITH_CONTROLLERS),
    PreflightRow(controllers.brokers_have_the_listener, WITH_CONTROLLERS),
    PreflightRow(controllers.controllers_use_the_same_ensemble, WITH_CONTROLLERS),
    PreflightRow(controllers.controllers_use_zookeeper_as_brokers_do, WITH_CONTROLLERS),
    PreflightRow(controllers.controllers_can_read_passwords, WITH_CONTROLLERS),
    PreflightRow(controllers.controllers_can_use_tokens, WITH_CONTROLLERS),
    PreflightRow(controllers.controllers_decide_as_brokers_did, WITH_CONTROLLERS),
    PreflightRow(controllers.nodes_can_log_in_to_controllers, WITH_CONTROLLERS),
    PreflightRow(controllers.brokers_may_register, WITH_CONTROLLERS),
    PreflightRow(controllers.controllers_allow_what_brokers_do, WITH_CONTROLLERS),
    PreflightRow(znodes.nothing_was_copied_yet, WITHOUT_CONTROLLERS),
    PreflightRow(znodes.controllers_reached_zookeeper, WITH_CONTROLLERS),
    PreflightRow(znodes.a_broker_is_controller, BOTH),
    PreflightRow(znodes.no_feature_is_finalized_there, BOTH),
    PreflightRow(znodes.nothing_is_deleted_or_moved, BOTH),
    PreflightRow(znodes.every_replica_has_its_broker, BOTH),
    PreflightRow(znodes.the_copy_works, BOTH),
)


def findings(preflight: PreflightInput) -> tuple[Blocker, ...]:
    """Blockers of the way, in the order of the table; empty if it may be taken. Raises ValueError for an `end` without
    rows.
    """
    rows = [row for row in ROWS if preflight.end in row.ends]
    if not rows:
        raise ValueError(f"nothing is looked at before {preflight.end}")
    return tuple(blocker for row in rows for blocker in row.check(preflight))
