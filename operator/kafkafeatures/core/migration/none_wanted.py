"""What the migration in a plan is called, and what there is of it where none is wanted. Pure, and light."""

from __future__ import annotations

from typing import ClassVar

from kafkafeatures.api.status import Stage
from kafkafeatures.core.engine.stage import Part, Work

MIGRATION = "Migration"
"""The kind of a stage that moves a cluster from ZooKeeper to KRaft, or back."""


class NoMigration(Part, frozen=True):
    """Nothing to do: no migration is wanted."""

    kind: ClassVar[str] = MIGRATION

    @property
    def stages(self) -> tuple[Stage, ...]:
        """There are none."""
        return ()

    @property
    def is_known(self) -> bool:
        """There is nothing to be known."""
        return True

    @property
    def unverified(self) -> tuple[str, ...]:
        """No consent is needed."""
        return ()

    def work_of(self, stages: tuple[Stage, ...]) -> tuple[Work, ...] | None:
        """None where a plan has a migration, which is no longer wanted."""
        return None if any(stage.kind == MIGRATION for stage in stages) else ()
