"""Shows the senders of old requests, to people and to programs. Called by `check.py` and `verdict_page.py`.

Names in logs come from clients, so they are cut, and shown as text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kafkafeatures.cli.clients.verdict_text import format_minute
from kafkafeatures.cli.log.words import show_table
from kafkafeatures.core.clients.senders import MANY_CLIENTS, Sender
from kafkafeatures.core.words import counted, cut, first_of, format_time

if TYPE_CHECKING:
    from rich.console import Console

SENDERS_HEADING = "Who sends them"
SENDER_COLUMNS = (
    "client id", "principal", "address", "software", "versions", "requests", "last (UTC)", "owner", "remedy",
)  # fmt: skip
_LONGEST = 120
"""Characters of a name that are shown; a client id may have 32 KiB."""
_ADDRESSES = 3
"""Addresses of a sender that are shown."""


def draw_senders(screen: Console, senders: Sequence[Sender]) -> None:
    """Draw the table, if there are any."""
    if not senders:
        return
    from rich.text import Text

    from kafkafeatures.cli.shell.indented import heading, item

    heading(screen, SENDERS_HEADING)
    show_table(screen, [column.upper() for column in SENDER_COLUMNS], [sender_row(sender) for sender in senders])
    for note in proxy_notes(senders):
        item(screen, Text(note, "yellow"))


def sender_row(sender: Sender) -> tuple[str, ...]:
    """The cells of a sender, as `SENDER_COLUMNS` has them."""
    addresses = [cut(address, _LONGEST) for address in sender.addresses]
    return (
        cut(sender.client_id, _LONGEST) or "-",
        cut(sender.principal, _LONGEST) or "-",
        first_of(addresses, _ADDRESSES) or "-",
        cut(", ".join(sender.software), _LONGEST) or "-",
        ", ".join(f"{name} v{version}" for name, version in sender.versions),
        f"{sender.requests:,}",
        format_minute(sender.last),
        cut(sender.owner, _LONGEST) or "-",
        sender.remedy,
    )


def proxy_notes(senders: Sequence[Sender]) -> list[str]:
    """A sentence about each sender that may be a proxy, or behind one."""
    return [
        f"{cut(sender.client_id, _LONGEST) or '-'}: {counted(sender.near, 'client id')} of "
        f"{cut(sender.principal, _LONGEST)} at one address: perhaps a proxy; ask who runs it"
        for sender in senders
        if sender.near >= MANY_CLIENTS
    ]


def senders_shape(senders: Sequence[Sender]) -> list[dict[str, Any]]:
    """The senders for documents."""
    return [
        {
            "kind": sender.kind.value,
            "clientId": sender.client_id,
            "principal": sender.principal,
            "addresses": list(sender.addresses),
            "software": list(sender.software),
            "versions": [{"api": name, "version": version} for name, version in sender.versions],
            "requests": sender.requests,
            "last": format_time(sender.last),
            "owner": sender.owner or None,
            "remedy": sender.remedy,
            "perhapsProxy": sender.near >= MANY_CLIENTS,
        }
        for sender in senders
    ]
