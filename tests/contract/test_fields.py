"""Every field of the CRD is described, once, in words that `kubectl explain` and the reference show alike."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from enum import StrEnum

import pytest
import yaml

from docs.make.fields_page import CRD, Field, fields, root, version
from docs.make.reference import PAGES
from kafkafeatures.api.reasons import BlockerKind, Condition, Phase
from kafkafeatures.api.spec import Availability, Desired
from kafkafeatures.api.status import ApprovedBy, ComparisonState, FeatureState, Result, StepState, Via
from kafkafeatures.client_files.config_map import MAX_PROBLEM, OWNERS, SCRAPE_SUFFIXES
from kafkafeatures.client_files.reduced import SUFFIX as LOG_SUFFIX
from kafkafeatures.core.clients.coverage import GapCause
from kafkafeatures.core.clients.verdict import ClientVerdict
from kafkafeatures.core.engine.desired_state import ApprovalPolicy, EvidencePolicy, Mode, OnDrift
from kafkafeatures.core.facts.observation import MetadataMode, SourceKind
from kafkafeatures.core.facts.readings import Role
from kafkafeatures.core.facts.releases import Undo
from kafkafeatures.core.ibp import INTER_BROKER_PROTOCOL
from kafkafeatures.core.kinds import KINDS
from kafkafeatures.core.levels.proposal import LEVELS
from kafkafeatures.core.levels.update_feature import UpdateFeature
from kafkafeatures.core.migration.not_desired import MIGRATION
from kafkafeatures.core.migration.positions import Position
from kafkafeatures.core.report.clients_document import MOST_BLOCKERS, MOST_GAPS, MOST_PROBLEMS, MOST_SENDERS
from kafkafeatures.core.roll.drivers import DRIVERS
from kafkafeatures.core.roll.proposal import ROLL
from kafkafeatures.core.roll.restart_node import RestartNode
from kafkafeatures.reconcile.client_reading import VALID_FOR
from kraftlog.image import ZkMigrationState

FIELDS = {one.path: one for one in fields()}
COLUMNS = {one["name"]: one for one in version()["additionalPrinterColumns"]}

LONGEST = 420
"""Characters of a description: a few lines of `kubectl explain`."""
MOST_BYTES = 262_144
"""The most bytes of the annotation in which `kubectl apply` stores an object; the API server accepts no larger one."""


def described() -> Iterable[tuple[str, str | None]]:
    """The descriptions of the kind, its fields and its columns, by name."""
    yield "KafkaFeatures", root().get("description")
    yield from ((path, one.schema.get("description")) for path, one in FIELDS.items())
    yield from ((f"column {name}", one.get("description")) for name, one in COLUMNS.items())


DESCRIBED = dict(described())


def test_the_kind_each_field_and_each_column_has_a_description() -> None:
    assert not [name for name, text in DESCRIBED.items() if not text]


def test_a_description_is_whole_sentences_of_plain_text_and_short() -> None:
    texts = {name: text or "" for name, text in DESCRIBED.items()}
    assert not {name: text for name, text in texts.items() if not re.fullmatch(r"(/|[A-Z]|<)[ -~]*\.", text)}
    assert not {name: text for name, text in texts.items() if "  " in text or "`" in text}
    assert not {name: len(text) for name, text in texts.items() if len(text) > LONGEST}


def test_the_reference_page_lists_all_fields_also_those_in_lists() -> None:
    assert {"spec", "spec.features.levels[].name", "status.plan.stages[].excused.names"} <= FIELDS.keys()
    shown = set(re.findall(r"(?m)^\| `([a-z]+\.[^`]+)` \|", PAGES["docs/reference/fields.md"]()))
    assert shown == FIELDS.keys() - {"spec", "status"}


def test_fields_with_the_same_meaning_have_the_same_description() -> None:
    """For types that the code has once and the CRD up to three times, such as references to Secrets."""
    by_end: dict[str, set[str]] = {}
    for path, one in FIELDS.items():
        end = re.search(r"\b(tls|sasl|digestSecretRef|excused)\.(.*)", path)
        if end is not None and end[0] != "excused.marks":  # a plan does not have it, and its description says so
            by_end.setdefault(end[0], set()).add(one.schema["description"])
    assert len(by_end) > 20
    assert not {end: texts for end, texts in by_end.items() if len(texts) > 1}


# --- compared with the code ---

MAIN_SOURCES = (SourceKind.METADATA_LOG, SourceKind.API_REQUESTS)
STAGES = (LEVELS, ROLL, MIGRATION, INTER_BROKER_PROTOCOL)
ACTIONS = (UpdateFeature.kind, RestartNode.kind, MIGRATION, INTER_BROKER_PROTOCOL)
WORDS: dict[str, Iterable[str]] = {
    "spec.mode": Mode,
    "spec.workload.driver": [one.name for one in DRIVERS],
    "spec.migration.desired": Desired,
    "spec.approval.policy": ApprovalPolicy,
    "spec.rollout.availability": Availability,
    "spec.drift.onDrift": OnDrift,
    "spec.clientEvidence.policy": EvidencePolicy,
    "status.clients.verdict": ClientVerdict,
    "status.clients.gaps[].cause": GapCause,
    "status.source": MAIN_SOURCES,
    "status.metadataMode": MetadataMode,
    "status.features[].state": FeatureState,
    "status.blockers[].kind": BlockerKind,
    "status.blockers[].roles": Role,
    "status.migration.phase": Phase,
    "status.migration.position": Position,
    "status.migration.zkMigrationState": [one.name for one in ZkMigrationState],
    "status.migration.equality.state": ComparisonState,
    "status.plan.approvedBy": ApprovedBy,
    "status.plan.stages[].kind": STAGES,
    "status.plan.steps[].action": ACTIONS,
    "status.plan.steps[].state": StepState,
    "status.plan.steps[].undo": Undo,
    "status.intents[].kind": KINDS,
    "status.intents[].via": Via,
    "status.history[].kind": [kind.recorded_as for kind in KINDS.values() if kind.recorded_as],
    "status.history[].result": Result,
    "status.conditions": Condition,
    "status.conditions[].status": ("True", "False", "Unknown"),
}
"""Fields whose values are words of the code, each with these words."""


@pytest.mark.parametrize("path", WORDS)
def test_the_description_of_a_field_has_all_values_that_the_code_writes_or_reads(path: str) -> None:
    found = set(re.findall(r"\w+", FIELDS[path].schema["description"]))
    wanted = {str(one.value) if isinstance(one, StrEnum) else str(one) for one in WORDS[path]}
    assert wanted <= found
    assert set(FIELDS[path].schema.get("enum", wanted)) == wanted


def test_the_values_of_every_enum_of_the_spec_are_compared_with_the_code() -> None:
    of_kafka = ("spec.cluster.sasl.mechanism", "spec.cluster.controllerListener.sasl.mechanism")
    assert {path for path, one in FIELDS.items() if "enum" in one.schema} == {
        *(path for path in WORDS if "enum" in FIELDS[path].schema),
        *of_kafka,
    }


DURATION = re.compile(r"\^\[0-9\]\+\([a-z|]+\)\$")
"""Pattern of a duration in the CRD, such as `^[0-9]+(s|m|h)$`."""
DURATIONS = [path for path, one in FIELDS.items() if DURATION.fullmatch(one.schema.get("pattern", ""))]
LIMIT = re.compile(r"\bat (most|least) ([0-9]+[a-z]*)|\bfrom ([0-9]+[a-z]*) to ([0-9]+[a-z]*)")


@pytest.mark.parametrize("path", DURATIONS)
def test_a_description_of_a_duration_has_the_bounds_of_its_rule(path: str) -> None:
    one: Field = FIELDS[path]
    rules = " ".join(rule["rule"] for rule in one.schema.get("x-kubernetes-validations", ()))
    bounds = set(re.findall(r"duration\('([0-9]+[a-z]+)'\)", rules))
    found = {part for match in LIMIT.findall(one.schema["description"]) for part in (match[1], *match[2:]) if part}
    assert bounds <= found


def test_the_fields_about_a_config_map_have_the_names_and_bounds_of_the_code() -> None:
    text = FIELDS["spec.clientEvidence.configMapRef"].schema["description"]
    assert all(name in text for name in (*SCRAPE_SUFFIXES, LOG_SUFFIX, OWNERS, f"{VALID_FOR / 60:g} minutes"))
    most = {"senders": MOST_SENDERS, "problems": MOST_PROBLEMS, "gaps": MOST_GAPS, "blockers": MOST_BLOCKERS}
    assert {name: FIELDS[f"status.clients.{name}"].schema["maxItems"] for name in most} == most
    assert FIELDS["status.clients.problems"].schema["items"]["maxLength"] == MAX_PROBLEM


# --- its size ---


def test_the_crd_is_small_enough_for_the_annotation_of_kubectl_apply() -> None:
    assert len(json.dumps(yaml.safe_load(CRD.read_text()))) < MOST_BYTES * 3 // 4
