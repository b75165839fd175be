"""Levels that another operator manages, as its resources show them.

Values only. Read through `reconcile/connections.py` from the resources that a document names; judged by
`core/levels/managed.py`.
"""

from __future__ import annotations

from msgspec import Struct


class ManagedLevel(Struct, frozen=True):
    """A level that another operator sets, whatever KafkaFeatures does.

    manager: the operator, as messages name it.
    level: the level that it sets; None where it is not known.
    problem: why it could not set the level, in its own words; empty where it reports nothing.
    setting: where a person names the level that it sets, for remedies.
    """

    feature: str
    manager: str
    level: int | None
    problem: str = ""
    setting: str = ""
