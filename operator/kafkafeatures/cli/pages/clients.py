"""Section about clients on a report's page: the verdict of their evidence, gaps in it, and who would break.

Pure. Called by `cli/pages/resource.py`. Names come from clients; they are shown as text.
"""

from __future__ import annotations

from kafkafeatures.api.client_status import ClientsStatus
from kafkafeatures.api.reasons import Condition
from kafkafeatures.cli.kube.resource import KubeResource
from kafkafeatures.cli.shell.html_parts import Html, as_written, box, lines, remedy, table

_STYLES = {"True": "good", "False": "bad"}


def clients(resource: KubeResource) -> Html:
    """The section; empty if the document asks for no evidence about clients."""
    status, condition = resource.status.clients, resource.status.condition(Condition.CLIENTS_COMPATIBLE)
    if status is None or condition is None:
        return Html()
    head = f"Kafka {status.target}: {condition.reason}"
    parts = (
        Html("<h2>Clients</h2>"),
        box(_STYLES.get(condition.status, "wait"), head, condition.message),
        _blockers(status),
        _senders(status),
        _gaps(status),
        Html("<p>{}</p>").format(lines(status.problems)) if status.problems else Html(),
    )
    return Html("\n").join(filter(None, parts))


def _blockers(status: ClientsStatus) -> Html:
    rows = [
        (
            f"{blocker.api} v{blocker.version}",
            blocker.brokers,
            str(blocker.requests_per_day),
            as_written(blocker.last_seen or "?"),
        )
        for blocker in status.blockers
    ]
    omitted = status.blocker_count - len(rows)
    more = f"; {omitted} more are not shown" if omitted > 0 else ""
    head = ("API", "Brokers", "Requests a day", "Last seen")
    return table(f"Versions in use that Kafka {status.target} lacks{more}", head, rows) if rows else Html()


def _senders(status: ClientsStatus) -> Html:
    rows = [
        (
            sender.client_id or "-",
            sender.principal or "-",
            sender.versions,
            as_written(sender.last_seen or "?"),
            sender.owner or "-",
            remedy(sender.remedy) if sender.remedy else "-",
        )
        for sender in status.senders
    ]
    head = ("Client id", "Principal", "Versions", "Last seen", "Owner", "What to do")
    return table("Who sends them, by request logs", head, rows) if rows else Html()


def _gaps(status: ClientsStatus) -> Html:
    rows = [
        (f"broker {gap.broker}", gap.cause, as_written(gap.since or "?"), as_written(gap.until or "now"))
        for gap in status.gaps
    ]
    return table("Gaps in the evidence", ("Broker", "Cause", "Since", "Until"), rows) if rows else Html()
