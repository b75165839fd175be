"""Requests to people before the next roll, in words: changes in Git, and restarts by hand.

Pure. Called by `core/ibp/state.py`. The operator itself changes no setting and no image.
"""

from __future__ import annotations

from kafkafeatures.api.reasons import Reason
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.blockers import title_of, verb
from kafkafeatures.core.engine.decisions import Wait
from kafkafeatures.core.facts.settings import IBP
from kafkafeatures.core.ibp.progress import IbpProgress, RollPurpose

DELAY = 5.0
"""Seconds until the next reconciliation during a wait for a change in Git."""


def wait_for_git(progress: IbpProgress) -> Wait:
    """Wait for a change in Git, without which no broker can be restarted."""
    nodes = tuple(broker.node for broker in progress.differing.values())
    if not nodes:
        text, remedy = (
            f"no broker says which {IBP} it uses",
            "grant DescribeConfigs on the cluster, or bring a broker back",
        )
        return Wait(Reason.WAITING_FOR_GIT, text, delay=DELAY, subject="brokers", remedy=remedy)
    title = title_of(nodes)
    if progress.roll is RollPurpose.PIN:
        used = ", ".join(sorted({str(broker.uses) for broker in progress.differing.values()}))
        text = f"{title} {verb(nodes, 'sets', 'set')} no {IBP}, and a newer Kafka has a higher default: no image is "
        text += f"rolled; set {IBP}={used} in Git, with the image as it is"
    elif progress.roll is RollPurpose.KAFKA:
        text = (
            f"{title} {verb(nodes, 'runs', 'run')} a Kafka that does not know {IBP} {progress.target}: set an image of "
        )
        text += f"Kafka {progress.target.of_release} in Git, with {IBP} as it is"
    else:
        text = f"set {IBP}={progress.target} in Git, for {title}; the image stays as it is"
    remedy = "roll out the change, and see whether the pods have it: kubectl get statefulset"
    return Wait(Reason.WAITING_FOR_GIT, text, delay=DELAY, subject=title, remedy=remedy)


def wait_for_person(progress: IbpProgress, roll_wait: Wait, broker_id: int) -> Wait:
    """`roll_wait`, the roll's wait for a person who restarts this broker, with the changes in its settings that are to
    be made before; as it is if none is needed.
    """
    if broker_id not in progress.differing:
        return roll_wait
    title = progress.known_brokers[broker_id].node.title
    text = f"restart {title} with {progress.lines(broker_id)}"
    return replace(roll_wait, message=text, subject=title, remedy=text)
