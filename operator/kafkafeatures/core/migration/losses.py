"""Possible losses on the way back, and the consents by which a person accepts them.

Pure. Called by `core/migration/checks.py`, by `core/migration/state.py`, which remembers which consents were asked for,
and by `core/migration/read_requirements.py`. Each loss has a consent of its own, for exactly what was shown
(`core/migration/consents.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kafkafeatures.api.names import ZK_CONTROLLERS_STOPPED, ZK_LOSE_BROKER, ZK_ROLLBACK_LOSSY
from kafkafeatures.api.reasons import BlockerKind
from kafkafeatures.api.records import Stamp
from kafkafeatures.api.spec import Desired
from kafkafeatures.api.status import ComparisonState, ConsentRequest
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.blockers import Blocker
from kafkafeatures.core.facts.observation import Known
from kafkafeatures.core.facts.readings import Failure
from kafkafeatures.core.migration.check_input import EdgeCheckInput
from kafkafeatures.core.migration.consents import Consentable, remaining_blocker, requested_now
from kafkafeatures.core.migration.copied.survey import Survey
from kafkafeatures.core.migration.edges import (
    FINALIZE,
    MOVE_BROKERS,
    MOVE_BROKERS_BACK,
    RELEASE,
    STOP_CONTROLLERS,
    WITHDRAW,
)
from kafkafeatures.core.migration.equality import REMEDY
from kafkafeatures.core.migration.finalize import is_in_dual_write, with_flags_first_in_dual_write
from kafkafeatures.core.migration.last_comparison import ACCEPT, about_differences, consent_to_loss
from kafkafeatures.core.migration.positions import FLAG, BrokerMode
from kafkafeatures.core.migration.progress import MigrationProgress
from kafkafeatures.core.migration.registered import missing_broker
from kafkafeatures.core.migration.stopped import unproven


def needs_comparison(progress: MigrationProgress) -> bool:
    """Tell whether the next step of the way may close a way back, so that ZooKeeper and the metadata log are compared
    before it. Nothing is compared any more once a controller was asked to lose its flag, or dual write is over.
    """
    return progress.way in (MOVE_BROKERS, FINALIZE, MOVE_BROKERS_BACK, STOP_CONTROLLERS) and is_in_dual_write(progress)


def with_consentable(inputs: EdgeCheckInput) -> EdgeCheckInput:
    """The input of the checks with everything that a person may consent to, gathered once in each reconciliation."""
    lost = dict(_lost_brokers(inputs)) if inputs.progress.way is RELEASE else {}
    inputs = replace(inputs, lost_brokers=lost)
    return replace(inputs, consentable=_consentable(inputs))


def _consentable(inputs: EdgeCheckInput) -> tuple[Consentable, ...]:
    """Blockers on the way back that a person may lift by consents, as far as they are shown now. The consent that all
    controllers have stopped is requested only once nothing is lost or all losses have their consents: until then the
    controllers may have to be started again.
    """
    progress, consentables = inputs.progress, list[Consentable]()
    if progress.desired is not Desired.ROLLED_BACK:
        return ()
    compared = inputs.compared
    if needs_comparison(progress) and compared is not None and compared.differences:
        text = f"{compared.summary}: {'; '.join(compared.examples)}"
        remedy = f"{with_flags_first_in_dual_write(progress, REMEDY)}; or {ACCEPT}"
        about = about_differences(compared.differences, compared.digest)
        blocker = Blocker(BlockerKind.METADATA, text, remedy)
        consentables.append(Consentable(ZK_ROLLBACK_LOSSY, about, blocker))
    if progress.way is RELEASE:
        consentables += losses(inputs)
    if progress.way in (RELEASE, WITHDRAW) and not any(remaining_blockers(inputs, consentables)):
        doubt = unproven(progress, inputs.controllers, inputs.voters)
        if doubt is not None:
            parts = frozenset(doubt.about.split(", "))
            consentables.append(Consentable(ZK_CONTROLLERS_STOPPED, doubt.about, doubt, parts))
    return tuple(consentables)


def remaining_blockers(inputs: EdgeCheckInput, consentables: Iterable[Consentable]) -> Iterator[Blocker]:
    """Blockers that remain after the consents were applied."""
    for consentable in consentables:
        blocker = remaining_blocker(consentable, inputs.consents, inputs.spent, inputs.requested)
        if blocker is not None:
            yield blocker


def requested_by(inputs: EdgeCheckInput, at: Stamp) -> tuple[ConsentRequest, ...]:
    """Requests for the consents that are needed now, and earlier requests for a loss that may still exist: the last
    comparison did not show that ZooKeeper has all metadata.
    """
    last, goes_back = inputs.equality, inputs.progress.desired is Desired.ROLLED_BACK
    lacks = goes_back and last is not None and last.state != ComparisonState.EQUAL
    return requested_now(
        inputs.requested,
        inputs.consentable,
        inputs.consents,
        {ZK_ROLLBACK_LOSSY} if lacks else (),
        at,
    )


def losses(inputs: EdgeCheckInput) -> Iterator[Consentable]:
    """Possible losses when the cluster is given back to ZooKeeper: metadata that ZooKeeper lacks; and records of a
    broker that may run in KRaft mode and lead partitions, which then get another leader. A broker with a znode of its
    own runs in ZooKeeper mode, even if it does not answer yet. The consent for a broker covers no other broker and no
    metadata.
    """
    lacking = consent_to_loss(inputs.progress, inputs.equality)
    if lacking is not None:
        yield lacking
    yield from inputs.lost_brokers.values()


def given_up(inputs: EdgeCheckInput) -> frozenset[int]:
    """Ids of brokers that are not expected to come back, as a person has consented to lose their records."""
    return frozenset(id_ for id_, loss in inputs.lost_brokers.items() if not any(remaining_blockers(inputs, (loss,))))


def _lost_brokers(inputs: EdgeCheckInput) -> Iterator[tuple[int, Consentable]]:
    progress, brokers = inputs.progress, inputs.progress.znodes.brokers
    with_znode = frozenset[int]() if isinstance(brokers, Failure) else frozenset(brokers)
    for id_, blocker in _not_in_zookeeper_mode(progress, with_znode, _absent_by_znodes(progress)):
        consent = f"{ZK_LOSE_BROKER}:{id_}"
        remedy = (
            f"start it in ZooKeeper mode with {FLAG}, or start the controllers again with their disks; or add "
            f"{consent} to consents, if what only this broker has may be lost"
        )
        yield id_, Consentable(consent, f"broker {id_}", replace(blocker, remedy=remedy))


def _absent_by_znodes(progress: MigrationProgress) -> tuple[int, ...]:
    """Ids of brokers that have replicas by the znodes of topics, and are registered nowhere. Without a controller only
    the znodes show this.
    """
    survey = progress.observation.surveyed.value if isinstance(progress.observation.surveyed, Known) else None
    assigned = survey.assigned if isinstance(survey, Survey) else frozenset[int]()
    return tuple(sorted({*assigned, *(progress.facts.absent or ())} - progress.facts.brokers.keys()))


def not_back(inputs: EdgeCheckInput) -> Iterator[Blocker]:
    """Blockers for brokers that are not certain to run in ZooKeeper mode."""
    absent = inputs.progress.facts.absent or ()
    yield from (blocker for _, blocker in _not_in_zookeeper_mode(inputs.progress, inputs.flying, absent))


def _not_in_zookeeper_mode(
    progress: MigrationProgress, excluded: frozenset[int], absent: tuple[int, ...]
) -> Iterator[tuple[int, Blocker]]:
    """Ids and blockers of brokers that are not certain to run in ZooKeeper mode, without those in `excluded`. `absent`:
    brokers that are registered nowhere.
    """
    for id_, mode in progress.facts.brokers.items():
        if mode not in (BrokerMode.PLAIN, BrokerMode.FLAGGED) and id_ not in excluded:
            nodes = tuple(node for node in progress.observation.nodes if node.id == id_)
            text = f"broker {id_} is not known to run in ZooKeeper mode"
            yield id_, Blocker(BlockerKind.NODE_UNKNOWN, text, f"bring broker {id_} back", nodes=nodes)
    yield from ((id_, missing_broker(id_)) for id_ in absent if id_ not in excluded)
