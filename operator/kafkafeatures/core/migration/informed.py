"""Check that every broker knows which broker is the controller, once the quorum is gone on the way back to ZooKeeper.

Pure. Called by `core/migration/checks.py`. A broker that still follows a controller of the quorum hangs when it is
stopped: its controlled shutdown waits for that controller, which no longer answers (for more than 130 s on real nodes).
"""

from __future__ import annotations

from collections.abc import Iterator

from kafkafeatures.api.reasons import BlockerKind
from kafkafeatures.core.engine.blockers import Blocker
from kafkafeatures.core.facts.readings import NOT_ASKED, Failure
from kafkafeatures.core.migration.progress import MigrationProgress


def uninformed(progress: MigrationProgress, flying: frozenset[int]) -> Iterator[Blocker]:
    """Blockers for brokers that do not name the broker in `/controller` as controller, or that cannot be read.
    `flying`: nodes that are being restarted, of which nothing is expected.
    """
    claim = progress.claim
    if claim is None or claim.is_kraft:
        text = "no broker is known to be controller"
        yield Blocker(BlockerKind.NODE_UNKNOWN, text, "see the logs of the brokers: one of them writes /controller")
        return
    for id_ in sorted(progress.facts.brokers.keys() - flying):
        answer = progress.observation.named_controllers.get(id_, NOT_ASKED)
        if isinstance(answer, Failure):
            text = f"it is not known which controller broker {id_} follows"
            text += "" if answer is NOT_ASKED else f": {answer.message}"
            remedy = answer.remedy or f"bring broker {id_} back"
        elif answer == {claim.node_id}:
            continue
        else:
            text = (
                f"broker {id_} does not know yet that broker {claim.node_id} is controller, and would hang when it is "
                "stopped"
            )
            remedy = f"wait a moment; if it stays so, see the log of broker {claim.node_id}, which informs all brokers"
        nodes = tuple(node for node in progress.observation.nodes if node.id == id_)
        yield Blocker(BlockerKind.NODE_UNKNOWN, text, remedy, nodes=nodes)
