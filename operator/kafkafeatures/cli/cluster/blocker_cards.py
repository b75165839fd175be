"""HTML of blockers: a card for each block of equal nodes, with what it lacks, its remedy, and the command to copy.

Called by all pages with blockers. It gets records of `api/status.py`, as `blockers_text.py` does, and has its texts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from kafkafeatures.api.reasons import BlockerKind
from kafkafeatures.api.status import BlockerStatus
from kafkafeatures.cli.cluster.blockers_text import blocks, is_about_ranges, messages, range_lines
from kafkafeatures.cli.shell.html_parts import Html, remedy, text

_NOTHING = Html()
_KINDS = {
    BlockerKind.NODE_RANGE.value: "Kafka too old",
    BlockerKind.NODE_UNKNOWN.value: "Version range unknown",
    BlockerKind.REFUSED_NODE.value: "Rejected by the controller",
    BlockerKind.DEPENDENCY.value: "Depends on another feature",
    BlockerKind.CONSENT.value: "Consent required",
    BlockerKind.DOWNGRADE.value: "Downgrade: consent required",
    BlockerKind.WORKLOAD.value: "Pods and StatefulSets",
    BlockerKind.PARTITION.value: "Partitions",
    BlockerKind.SETTING.value: "Settings of nodes",
    BlockerKind.ZOOKEEPER_MODE.value: "ZooKeeper mode",
    BlockerKind.ZOOKEEPER.value: "ZooKeeper",
    "DowngradeLoss": "Downgrade may lose metadata",  # of `pipeline gate`
}
"""Words for a kind of blocker, if its name does not say it to people."""


def kind_in_words(kind: str, *, is_too_new: bool = False) -> str:
    """A kind of blocker in words, such as "Kafka too old". `is_too_new`: the required level is below the node's
    range.
    """
    if is_too_new and kind == BlockerKind.NODE_RANGE:
        return "Kafka too new"
    return _KINDS.get(kind) or re.sub(r"(?<=[a-z])(?=[A-Z])", " ", kind).capitalize()


def blocker_cards(blockers: Iterable[BlockerStatus]) -> Html:
    """The cards; empty without blockers."""
    cards = Html("\n").join(map(_card_of, blocks(blockers)))
    return Html('<div class="cards">\n{}\n</div>').format(cards) if cards else Html()


def card(title: str, kind: str, lines: Iterable[str], advice: Html = _NOTHING, note: Html = _NOTHING) -> Html:
    """A card. `lines`: what is missing. `advice`: the remedy. `note`: what stands at the end, such as the evidence."""
    items = Html().join(Html("<li>{}</li>").format(text(line)) for line in lines)
    head = Html('<h3>{}</h3>\n<p class="muted">{}</p>').format(text(title), text(kind))
    return Html('<section class="card">{}\n<ul>{}</ul>\n{}{}</section>').format(head, items, advice, note)


def _card_of(block: Sequence[BlockerStatus]) -> Html:
    first, about_ranges = block[0], is_about_ranges(block[0])
    is_too_new = about_ranges and (first.wanted or 0) < (first.supported_min or 0)
    release = f", Kafka {first.inferred_release}" if first.inferred_release else ""
    remedies = dict.fromkeys(blocker.remedy for blocker in block if blocker.remedy)
    return card(
        f"{first.nodes}{release}" if first.nodes else first.feature or "The cluster",
        kind_in_words(first.kind, is_too_new=is_too_new),
        range_lines(block) if about_ranges else messages(block),
        Html().join(Html("<p>{}</p>").format(remedy(advice)) for advice in remedies),
    )
