"""The remedy for a right that a controller denies during a migration: an ACL, or the controller's own file before the
copy.
"""

from __future__ import annotations

import pytest

from kafkafeatures.api.values import replace
from kafkafeatures.core.facts.early_rights import GRANT
from kafkafeatures.core.facts.observation import Observation, Unknown
from kafkafeatures.core.facts.observe import observe
from kafkafeatures.core.facts.readings import NOT_ASKED, Failure, FailureKind, NodeAnswer, ProbedNode, Role
from kafkafeatures.core.facts.znodes import ZooKeeperReading
from kafkafeatures.core.migration.progress import settings_by_node
from tests.kafkafeatures.ensembles import elected, progress, reading
from tests.kafkafeatures.worlds import SILENT, answer, asked, probe

ACL = "kafka-acls.sh --add --allow-principal User:NAME --operation ClusterAction --cluster"
DENIED = Failure(FailureKind.AUTHORIZATION, "controller-1:9093", "reading it needs CLUSTER_ACTION", ACL)
PLAIN = answer({}, {}, keys=(18,), epoch=-1)
FLAGGED, IN_KRAFT = replace(PLAIN, zk_migration_ready=True), answer()
CONTROLLER = replace(asked(3001), answer=replace(answer(), zk_migration_ready=True))


def observe_without_rights(
    *brokers: NodeAnswer | Failure, znodes: ZooKeeperReading | Failure = NOT_ASKED
) -> Observation:
    """Observe a cluster whose controller denies every request."""
    nodes: tuple[ProbedNode, ...] = tuple(asked(id_, node_answer) for id_, node_answer in enumerate(brokers, 1))
    cluster_probe = probe(CONTROLLER, *nodes, quorum=DENIED, controllers=DENIED)
    return observe(cluster_probe, DENIED, zookeeper=znodes)


def remedies(observation: Observation) -> set[str]:
    assert isinstance(observation.quorum, Unknown)
    assert isinstance(observation.zk_migration_state, Unknown)
    denied = [gap for gap in observation.gaps if gap.kind is FailureKind.AUTHORIZATION]
    return {failure.remedy for failure in (observation.quorum.failure, observation.zk_migration_state.failure, *denied)}


@pytest.mark.parametrize(
    "observation",
    [
        observe_without_rights(PLAIN, PLAIN),
        observe_without_rights(PLAIN, FLAGGED),
        observe_without_rights(FLAGGED, SILENT, znodes=reading(controller=elected(1), migration=progress(-1))),
        observe_without_rights(PLAIN, znodes=reading(controller=elected(1), migration=None)),
    ],
    ids=["no broker has the flag", "one broker has the flag", "nothing was copied", "a broker is the controller"],
)
def test_before_the_copy_no_acl_helps_on_controllers_but_their_own_files(observation: Observation) -> None:
    """Controllers have no ACLs before they copied those of ZooKeeper: super.users in their files
    has to name the user.
    """
    assert remedies(observation) == {GRANT}
    assert "kafka-acls.sh" not in GRANT


@pytest.mark.parametrize(
    "observation",
    [
        observe_without_rights(IN_KRAFT, FLAGGED),
        observe_without_rights(IN_KRAFT),
        observe_without_rights(FLAGGED, znodes=reading(migration=progress(400))),
        observe_without_rights(SILENT),
    ],
    ids=["a broker in KRaft mode", "all brokers in KRaft mode", "znodes were copied", "silent broker"],
)
def test_the_remedy_for_a_missing_right_is_an_acl_once_brokers_or_a_copy_are_or_may_be_in_kraft(
    observation: Observation,
) -> None:
    assert remedies(observation) == {ACL}


@pytest.mark.parametrize(("is_copied", "remedy"), [(False, GRANT), (True, "grant DESCRIBE_CONFIGS on the cluster")])
def test_the_settings_of_a_controller_need_its_file_before_the_copy(is_copied: bool, remedy: str) -> None:
    silent = {
        key: setting
        for key, setting in settings_by_node(observe_without_rights(PLAIN), is_copied=is_copied).items()
        if isinstance(setting, Failure)
    }
    is_remedy = {role.value: failure.remedy.startswith(remedy) for (role, _), failure in silent.items()}
    assert is_remedy == {"Controller": True, "Broker": is_copied}


def test_the_reason_for_which_a_controller_did_not_prove_its_id_has_that_remedy_too() -> None:
    controller = replace(CONTROLLER, unproved=DENIED)
    observation = observe(probe(controller, asked(1, PLAIN), quorum=DENIED, controllers=DENIED), DENIED)
    settings = settings_by_node(observation, is_copied=False)[Role.CONTROLLER, 3001]
    assert settings == replace(DENIED, remedy=GRANT)
