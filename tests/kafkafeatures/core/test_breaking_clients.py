"""A roll to a Kafka release that breaks clients is held if the document's policy asks for it.

All nodes run Kafka 3.9, and their images were changed to 4.4, which removed Produce v2 and Fetch v3. `covered(ids)`:
evidence that no client of these brokers uses removed versions, but those named. `GATE`: the policy that holds a roll.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from itertools import combinations
from typing import Any

import pytest

from kafkafeatures.api.reasons import BlockerKind, Reason
from kafkafeatures.api.status import EMPTY, RevisionStatus, RolloutStatus
from kafkafeatures.api.values import replace
from kafkafeatures.core.clients.reading import ClientsReading
from kafkafeatures.core.engine.decisions import Act, Stalled, Wait
from kafkafeatures.core.engine.desired_state import Rollout
from kafkafeatures.core.facts.binaries import supported_by
from kafkafeatures.core.facts.observation import Known, NodeState, Observation, Unknown
from kafkafeatures.core.levels.update_feature import UpdateFeature
from kafkafeatures.core.roll.breaking_clients import ClientBreaks
from kafkafeatures.core.roll.permit import Permit
from kafkafeatures.core.roll.report import with_breaks
from kafkafeatures.core.roll.restart_node import RestartInFlight
from kafkafeatures.core.roll.roll import Roll
from kafkafeatures.core.roll.targets import Target
from tests.kafkafeatures.core.evidences import (
    FETCH_3,
    GATE,
    MISSING,
    PRODUCE_2,
    REPORT,
    STALE,
    covered,
    reading,
    scrapes,
    with_clients,
)
from tests.kafkafeatures.core.fleets import NEW
from tests.kafkafeatures.core.rolls import (
    BROKERS,
    CONTROLLERS,
    CRASHES,
    a_node,
    a_pod,
    cluster,
    current,
    refused,
    replaced,
    rolled,
    sent,
    with_workloads,
    workloads_of,
)
from tests.kafkafeatures.worlds import OLD, SILENT, answer, known

RUNNING_3_9: Mapping[int, Any] = {id_: a_node(id_, said=answer(OLD), written=OLD) for id_ in (*CONTROLLERS, *BROKERS)}
KAFKA_4_4 = {name: (levels.min, levels.max) for name, levels in (supported_by("4.4") or {}).items()}
READY = covered(BROKERS)
PRODUCE, FETCH = "client-breaks:Produce:2", "client-breaks:Fetch:3"


def old_cluster(clients: Known[ClientsReading] | Unknown, *pods: int, **fields: Any) -> Observation:
    """Build the cluster; the pods of these ids run 4.4 already."""
    upgraded = {id_: a_node(id_, said=answer(KAFKA_4_4), written=KAFKA_4_4) for id_ in pods}
    observed = cluster(current(*pods), {**RUNNING_3_9, **upgraded}, **fields)
    assert isinstance(observed.workloads, Known)
    controllers, brokers = observed.workloads.value.stateful_sets
    controllers = replace(controllers, release=brokers.release, image=brokers.image)
    workloads = replace(
        observed.workloads, value=replace(observed.workloads.value, stateful_sets=(controllers, brokers))
    )
    observed = replace(observed, workloads=workloads)
    return with_clients(
        replace(observed, registered_brokers=known(frozenset(BROKERS)), finalized=known({"metadata.version": 21})),
        clients,
    )


def rolls(roll: Roll) -> bool:
    """Tell whether a node is restarted now."""
    return isinstance(roll.decision, Act)


EVIDENCE: Mapping[str, tuple[Known[ClientsReading] | Unknown, Reason]] = {
    "none was read": (Unknown(MISSING.failure), Reason.PREFLIGHT),
    "it is old": (STALE, Reason.PREFLIGHT),
    "a broker has none": (reading(BROKERS, *(s for id_ in BROKERS[1:] for s in scrapes(id_))), Reason.PREFLIGHT),
    "it is shorter than the window": (
        reading(BROKERS, *(s for id_ in BROKERS for s in scrapes(id_, since=12))), Reason.PREFLIGHT,
    ),
    "it ended a day ago": (
        reading(BROKERS, *(s for id_ in BROKERS for s in scrapes(id_, until=1))), Reason.PREFLIGHT,
    ),
    "it is for fewer brokers": (covered(BROKERS[1:]), Reason.PREFLIGHT),
    "it is for another release": (covered(BROKERS, release="4.1"), Reason.PREFLIGHT),
    "it is for another window": (
        reading(BROKERS, *(s for id_ in BROKERS for s in scrapes(id_)), window=timedelta(days=30)), Reason.PREFLIGHT,
    ),
    "it is of brokers that refuse old versions": (
        reading(BROKERS, *(s for id_ in BROKERS for s in scrapes(id_)), all_refuse=True), Reason.PREFLIGHT,
    ),
    "a removed version was used at an unknown time": (  # its counter is above 0 in the first scrape, 20 days ago
        reading(BROKERS, *scrapes(1, before=(PRODUCE_2,))[20:], *(s for id_ in BROKERS[1:] for s in scrapes(id_))),
        Reason.PREFLIGHT,
    ),
    "clients break": (covered(BROKERS, PRODUCE_2), Reason.CONSENT_REQUIRED),
}  # fmt: skip
"""Evidence that does not prove that no client breaks, and the reason of the wait."""


@pytest.mark.parametrize("case", EVIDENCE)
def test_no_node_is_restarted_to_the_release_unless_it_is_proven_that_no_client_breaks(case: str) -> None:
    clients, reason = EVIDENCE[case]
    for pods in ((), CONTROLLERS, (*CONTROLLERS, 6)):
        roll = rolled(old_cluster(clients, *pods), clients=GATE)
        refused(roll, reason)
        assert isinstance(roll.decision, Wait | Stalled)
        assert [blocker.kind for blocker in roll.decision.blockers] == [BlockerKind.CLIENT]


@pytest.mark.parametrize("case", EVIDENCE)
def test_the_policy_report_holds_nothing(case: str) -> None:
    assert rolls(rolled(old_cluster(EVIDENCE[case][0]), clients=REPORT))
    assert rolls(rolled(old_cluster(EVIDENCE[case][0])))  # it is the default


def test_a_roll_goes_on_where_it_is_proven_that_no_client_breaks() -> None:
    assert rolls(rolled(old_cluster(READY), clients=GATE))


@pytest.mark.parametrize("case", EVIDENCE)
def test_a_restart_to_a_release_that_removed_nothing_needs_no_evidence(case: str) -> None:
    assert rolls(rolled(old_cluster(EVIDENCE[case][0], release="3.9", image="kafka:3.9.1"), clients=GATE))


def test_a_restart_to_the_first_release_that_removed_versions_needs_evidence() -> None:
    to_4_0 = replace(GATE, release="4.0")
    refused(rolled(old_cluster(MISSING, release="4.0", image="kafka:4.0.0"), clients=to_4_0), Reason.PREFLIGHT)
    ready = covered(BROKERS, release="4.0")
    assert rolls(rolled(old_cluster(ready, release="4.0", image="kafka:4.0.0"), clients=to_4_0))


def test_a_restart_to_the_release_that_a_node_runs_needs_no_evidence() -> None:
    observed = cluster(release="4.1")  # these nodes run 4.1
    assert isinstance(observed.workloads, Known)
    sets = tuple(replace(owner, release="4.1", image="kafka:4.1.0") for owner in observed.workloads.value.stateful_sets)
    observed = replace(
        observed, workloads=replace(observed.workloads, value=replace(observed.workloads.value, stateful_sets=sets))
    )
    assert rolls(rolled(observed, clients=GATE))
    dead = replace(observed, nodes=tuple(replace(node, answer=MISSING) for node in observed.nodes))
    refused(rolled(dead, clients=GATE), Reason.ROLLOUT_HALTED)


def test_a_release_that_is_not_known_is_held_with_the_annotation_as_the_remedy() -> None:
    message = refused(rolled(old_cluster(READY, release="", image="kafka:latest"), clients=GATE), Reason.ROLLOUT_HALTED)
    assert "release of the new image of broker is not known" in message
    assert "kafkafeatures.dev/kafka-version" in message


def test_an_annotation_that_was_left_does_not_hide_the_release_of_a_newer_image() -> None:
    """The template says 3.9 and the tag of its image 4.4, so it is not known which of them is right."""
    release, image = "3.9", "kafka:4.4.0"
    for clients in (MISSING, READY):
        refused(rolled(old_cluster(clients, release=release, image=image), clients=GATE), Reason.ROLLOUT_HALTED)
    shown = cluster(current(*CONTROLLERS, 1), RUNNING_3_9)  # nodes that run the new template report 3.9
    sets = tuple(replace(owner, release=release, image=image) for owner in workloads_of(shown).stateful_sets)
    assert rolls(rolled(with_clients(with_workloads(shown, stateful_sets=sets), MISSING), clients=GATE))


def test_evidence_for_one_release_lets_no_node_go_to_another() -> None:
    message = refused(rolled(old_cluster(READY, release="4.1"), clients=GATE), Reason.ROLLOUT_HALTED)
    assert "of Kafka 4.1, and evidence about clients is for Kafka 4.4" in message
    assert message.endswith('set spec.clientEvidence.target to "4.1"')


def test_a_template_that_names_another_release_than_its_first_pod_reports_is_not_believed() -> None:
    """Controller 3001 runs the new template. The template names 3.9 and the node reports 4.4, or the other way round:
    one of them is wrong.
    """
    observed = old_cluster(READY, 3001, release="3.9", image="kafka:3.9.1")
    message = refused(rolled(observed, clients=GATE), Reason.ROLLOUT_HALTED)
    assert "release of the new image of controller is not known" in message
    as_before = {id_: RUNNING_3_9[id_] for id_ in (3001,)}
    observed = old_cluster(READY, 3001)
    observed = replace(observed, nodes=tuple(as_before.get(node.id, node) for node in observed.nodes))
    refused(rolled(observed, clients=GATE), Reason.ROLLOUT_HALTED)


def test_a_broker_that_runs_the_new_release_already_needs_no_evidence_for_the_restart_of_other_brokers() -> None:
    """Broker 1 runs 4.4, and does not count requests in versions that it refuses: without this, no roll would end."""
    pods = (*CONTROLLERS, 1)
    assert rolls(rolled(old_cluster(covered(BROKERS[1:]), *pods), clients=GATE))
    assert rolls(rolled(old_cluster(covered(BROKERS), *pods), clients=GATE))  # evidence from before its restart
    refused(rolled(old_cluster(covered(BROKERS[2:]), *pods), clients=GATE), Reason.PREFLIGHT)


def test_evidence_has_to_cover_a_broker_of_which_it_is_not_known_what_it_runs() -> None:
    """Broker 6 does not answer, and no registration of it was read: it may still run 3.9."""
    unknown = a_node(6, state=NodeState.FENCED, said=SILENT, written=None)
    for clients, is_covered in ((READY, True), (covered(BROKERS[:5]), False)):
        observed = old_cluster(clients)
        observed = replace(observed, nodes=tuple(unknown if node.id == 6 else node for node in observed.nodes))
        roll = rolled(observed, clients=GATE)
        assert rolls(roll) is is_covered, roll.decision


def test_a_removed_version_that_clients_used_on_a_broker_before_its_upgrade_still_counts() -> None:
    refused(rolled(old_cluster(covered(BROKERS, PRODUCE_2), *CONTROLLERS, 1), clients=GATE), Reason.CONSENT_REQUIRED)


# --- consents ---


def test_a_consent_covers_the_versions_that_it_names_and_no_other() -> None:
    consents = (PRODUCE, FETCH, "client-breaks:Produce:1", "client-breaks:Fetch:2")
    breaks = old_cluster(covered(BROKERS, PRODUCE_2, FETCH_3))
    for count in range(len(consents) + 1):
        for given in combinations(consents, count):
            roll = rolled(breaks, clients=GATE, consents=frozenset(given))
            assert rolls(roll) is ({PRODUCE, FETCH} <= set(given)), given
    message = refused(rolled(breaks, clients=GATE, consents=frozenset({PRODUCE})), Reason.CONSENT_REQUIRED)
    assert "lacks: Fetch v3" in message


@pytest.mark.parametrize("case", [case for case in EVIDENCE if case != "clients break"])
def test_no_consent_stands_in_for_evidence(case: str) -> None:
    observed = old_cluster(EVIDENCE[case][0])
    refused(rolled(observed, clients=GATE, consents=frozenset({PRODUCE, FETCH})), Reason.PREFLIGHT)


def test_a_use_with_a_consent_does_not_hide_a_gap() -> None:
    gap = reading(BROKERS, *scrapes(1, PRODUCE_2), *(s for id_ in BROKERS[2:] for s in scrapes(id_)))
    assert gap.value.check.breaking()
    message = refused(rolled(old_cluster(gap), clients=GATE, consents=frozenset({PRODUCE})), Reason.PREFLIGHT)
    assert "broker 2 without evidence" in message


def test_a_consent_is_used_with_the_first_restart_and_stays_valid_for_the_revisions_of_that_roll_alone() -> None:
    observed = old_cluster(covered(BROKERS, PRODUCE_2))
    roll = rolled(observed, clients=GATE, consents=frozenset({PRODUCE, FETCH}))
    targets = frozenset({Target("broker", NEW), Target("controller", NEW)})
    assert roll.breaks == ClientBreaks(frozenset({PRODUCE}), targets)
    rollout = with_breaks(
        RolloutStatus(
            id=roll.id, total=9,
            revisions=tuple(RevisionStatus(name=name, revision=NEW, left=6) for name in ("broker", "controller")),
        ),
        roll.breaks,
    )  # fmt: skip
    spent = replace(EMPTY, spent_consents=(PRODUCE,), rollout=rollout)
    assert rolls(rolled(observed, clients=GATE, consents=frozenset({PRODUCE}), status=spent))
    refused(rolled(observed, clients=GATE, status=spent), Reason.CONSENT_REQUIRED)  # withdrawn
    forgotten = replace(EMPTY, spent_consents=(PRODUCE,))
    refused(rolled(observed, clients=GATE, consents=frozenset({PRODUCE}), status=forgotten), Reason.CONSENT_SPENT)
    another = old_cluster(covered(BROKERS, PRODUCE_2), update_revision="broker-third")
    refused(rolled(another, clients=GATE, consents=frozenset({PRODUCE}), status=spent), Reason.CONSENT_SPENT)
    over = old_cluster(covered(BROKERS, PRODUCE_2), *CONTROLLERS, *BROKERS)
    assert not any(entry.client_breaks for entry in rolled(over, clients=GATE, status=spent).revisions)


def test_a_consent_stays_valid_while_kubernetes_has_not_processed_a_change_of_the_statefulset() -> None:
    """The number of replicas may be changed in the middle of a roll."""
    observed = old_cluster(covered(BROKERS, PRODUCE_2))
    entries = tuple(
        RevisionStatus(name=name, revision=NEW, left=6, client_breaks=(PRODUCE,)) for name in ("broker", "controller")
    )
    sets = tuple(replace(owner, observed=False) for owner in workloads_of(observed).stateful_sets)
    roll = rolled(
        with_workloads(observed, stateful_sets=sets), clients=GATE, consents=frozenset({PRODUCE}),
        status=replace(EMPTY, spent_consents=(PRODUCE,), rollout=RolloutStatus(total=9, revisions=entries)),
    )  # fmt: skip
    assert [entry.client_breaks for entry in roll.revisions] == [(PRODUCE,), (PRODUCE,)]


def test_a_restart_that_breaks_nobody_uses_no_consent() -> None:
    assert not rolled(old_cluster(READY), clients=GATE, consents=frozenset({PRODUCE})).breaks.consents
    breaks = old_cluster(covered(BROKERS, PRODUCE_2))
    assert not rolled(breaks, clients=REPORT, consents=frozenset({PRODUCE})).breaks.consents


# --- every kind of restart ---


def test_a_restart_that_may_be_unsent_is_held_as_well() -> None:
    flying = sent(3002)
    assert rolls(rolled(old_cluster(READY), flying, clients=GATE))
    refused(rolled(old_cluster(STALE), flying, clients=GATE), Reason.PREFLIGHT)


def test_a_restart_of_a_migration_is_held_and_no_consent_counts_there() -> None:
    permit = Permit("dual write", dict.fromkeys(BROKERS, "the settings"))
    refused(rolled(old_cluster(MISSING), clients=GATE, permit=permit), Reason.PREFLIGHT)
    breaks = old_cluster(covered(BROKERS, PRODUCE_2))
    roll = rolled(breaks, clients=GATE, permit=permit, consents=frozenset({PRODUCE}))
    assert refused(roll, Reason.CONSENT_REQUIRED).endswith("set spec.clientEvidence.policy to Report")


@pytest.mark.parametrize("flying", [(), (sent(1, after="broker-bad"),)], ids=["first", "again"])
def test_a_stuck_node_is_held_as_well_even_if_no_other_node_needs_a_restart(
    flying: tuple[RestartInFlight, ...],
) -> None:
    """Broker 1 crashes on its first revision, or on one that it was restarted to before the template changed again."""
    other_ids = [id_ for id_ in BROKERS if id_ != 1]
    observed = old_cluster(MISSING, *CONTROLLERS, *other_ids)
    dead = a_node(1, state=NodeState.FENCED, said=SILENT, written=OLD)
    pod = replaced(1, revision="broker-bad", **CRASHES)[1] if flying else a_pod(1, **CRASHES)
    sets = tuple(
        replace(owner, pods=tuple(pod if its_pod.name == "broker-1" else its_pod for its_pod in owner.pods))
        for owner in workloads_of(observed).stateful_sets
    )
    observed = replace(observed, nodes=tuple(dead if node.id == 1 else node for node in observed.nodes))
    observed = with_workloads(observed, stateful_sets=sets)
    assert rolls(rolled(observed, *flying))
    refused(rolled(observed, *flying, clients=GATE), Reason.PREFLIGHT)


def test_a_person_is_asked_for_no_restart_without_evidence_for_the_target() -> None:
    by_hand = Rollout("Manual")
    raise_ = (UpdateFeature("metadata.version", 21, 30),)
    observed = old_cluster(READY)
    assert rolls(rolled(observed, rollout=by_hand, changes=raise_, clients=GATE))
    refused(rolled(with_clients(observed, STALE), rollout=by_hand, changes=raise_, clients=GATE), Reason.PREFLIGHT)


def test_nothing_is_refused_where_nothing_is_to_be_restarted() -> None:
    observed = old_cluster(MISSING, *CONTROLLERS, *BROKERS)
    assert rolled(observed, clients=GATE).decision is None
