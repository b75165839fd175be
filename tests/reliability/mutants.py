"""Mutants: small faults of the product, each chosen before anything was run against it, and what they would mean.

A catalogue, and nothing else; by area it is in `mutants_of_levels.py` and its neighbours. `mutating.py` tries them and
says which programme kills each. The words of a mutant are in its file exactly once, which `test_mutants.py` holds: who
changes that line takes the new words over, with what the fault means now, or takes another fault of the same rule where
the line is gone.
"""

from __future__ import annotations

from tests.reliability import (
    mutants_of_adapters,
    mutants_of_clients,
    mutants_of_levels,
    mutants_of_migration,
    mutants_of_pipeline,
    mutants_of_rolls,
)
from tests.reliability.mutant import Mutant

AREAS = ("levels", "rolls", "clients", "migration", "adapters", "pipeline")

MUTANTS: tuple[Mutant, ...] = (
    *mutants_of_levels.MUTANTS,
    *mutants_of_rolls.MUTANTS,
    *mutants_of_clients.MUTANTS,
    *mutants_of_migration.MUTANTS,
    *mutants_of_adapters.MUTANTS,
    *mutants_of_pipeline.MUTANTS,
)
