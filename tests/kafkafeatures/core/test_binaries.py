"""The Kafka release of a pod template or a node, and the levels that its nodes support."""

from __future__ import annotations

import gzip
import json

import pytest

from kafkafeatures.api.names import KAFKA_VERSION, METADATA_VERSION
from kafkafeatures.core.facts.binaries import VERSION_LABEL, inferred_release, release_of, releases_with, supported_by
from kafkafeatures.core.facts.releases import METADATA_VERSIONS, releases
from kafkafeatures.kafka.wire.codec import decode_response
from tests.fuzz.replies import REPLIES
from tests.kafkafeatures.worlds import SILENT, Ranges, answer, node
from tests.kafkafeatures.worlds import ranges as ranges_of

RECORDED = sorted(path.name.removesuffix(".jsonl.gz") for path in REPLIES.glob("*.jsonl.gz"))


@pytest.mark.parametrize("version", RECORDED)
def test_the_supported_ranges_of_a_release_are_those_that_its_real_nodes_reported(version: str) -> None:
    with gzip.open(REPLIES / f"{version}.jsonl.gz", "rt") as lines:
        rows = [json.loads(line) for line in lines]
    replies = [
        decode_response(18, 4, bytes.fromhex(row["reply"]))[1]
        for row in rows
        if (row["api"], row["version"]) == (18, 4)
    ]
    reported = [reply.supported_features for reply in replies if not reply.error_code]
    assert len(reported) == 3  # of a broker, the active controller and another one
    assert all(ranges == supported_by(release_of({}, {}, f"kafka:{version}")) for ranges in reported)


@pytest.mark.parametrize("version", RECORDED)
def test_the_release_of_a_node_is_inferred_from_the_ranges_that_it_reports(version: str) -> None:
    release = release_of({}, {}, f"kafka:{version}")
    assert releases_with(supported_by(release) or {}) == (release,)


@pytest.mark.parametrize(
    ("ranges", "releases"),
    [
        ({"metadata.version": (7, 25), "group.version": (0, 1)}, ("4.0",)),
        ({"metadata.version": (7, 25), "share.version": (0, 0)}, ("4.0",)),
        ({"metadata.version": (7, 25), "group.version": (0, 2)}, ()),
        ({"metadata.version": (7, 25), "vendor.version": (0, 1)}, ()),
        ({"metadata.version": (7, 28)}, ()),
        ({"group.version": (0, 1)}, ()),
    ],
    ids=[
        "features from 0 on left out",
        "a feature of 4.1 at 0 only",
        "higher than in any release",
        "feature of a vendor",
        "metadata.version of no release",
        "no metadata.version",
    ],
)
def test_supported_ranges_identify_one_release_or_none(ranges: Ranges, releases: tuple[str, ...]) -> None:
    assert releases_with(ranges_of(ranges)) == releases


def test_the_release_is_inferred_from_the_answer_before_the_registration_and_unknown_for_other_ranges() -> None:
    new, old = ({"metadata.version": (7, top)} for top in (29, 25))
    assert inferred_release(node(1, said=answer(new), written=old)) == "4.2"
    assert inferred_release(node(1, said=SILENT, written=old)) == "4.0"
    assert inferred_release(node(1, said=SILENT, written=None)) == ""
    assert inferred_release(node(1, said=answer({"metadata.version": (7, 28)}), written=old)) == ""


def test_every_release_from_3_3_on_has_a_row_with_its_newest_level() -> None:
    newest = {version.name.split("-")[0]: level for level, version in METADATA_VERSIONS.items()}
    for release in releases():
        ranges = supported_by(release)
        if release in ("3.0", "3.1", "3.2"):
            assert ranges is None
        else:
            assert ranges is not None
            assert ranges[METADATA_VERSION].max == newest[release]


@pytest.mark.parametrize(
    ("image", "release"),
    [
        ("apache/kafka:4.1.2", "4.1"),
        ("registry.example.com:5000/team/kafka:4.4.0-rc1", "4.4"),
        ("kafka:v3.9.1@sha256:0123", "3.9"),
        ("bitnami/kafka:3.9.0-debian-12-r1", "3.9"),
        ("quay.io/strimzi/kafka:0.45.0-kafka-3.9.0", "3.9"),
        ("wurstmeister/kafka:2.13-3.8.1", "3.8"),
        ("confluentinc/cp-kafka:7.6.0", ""),
        ("kafka:4.9.0", ""),
        ("kafka:latest", ""),
        ("kafka:4.4", ""),
        ("kafka:4.1.0-on-4.4.0", ""),
        ("kafka:14.1.0.4", ""),
        ("kafka@sha256:0123", ""),
        ("localhost:4.1/kafka", ""),
        ("kafka", ""),
        ("", ""),
    ],
)
def test_the_tag_of_an_image_names_a_release_or_none(image: str, release: str) -> None:
    assert release_of({}, {}, image) == release


def test_a_version_label_counts_unless_it_contradicts_the_tag_of_the_image() -> None:
    assert release_of({VERSION_LABEL: "4.4.0"}, {}, "kafka:latest") == "4.4"
    assert release_of({VERSION_LABEL: "4.4"}, {}, "kafka:4.4.1") == "4.4"
    assert release_of({VERSION_LABEL: "4.1.0"}, {}, "kafka:4.4.0") == ""
    assert release_of({VERSION_LABEL: "7.5.0"}, {}, "kafka:4.4.0") == "4.4"


def test_the_version_annotation_overrides_label_and_image_even_with_a_release_that_does_not_exist() -> None:
    assert release_of({VERSION_LABEL: "4.1.0"}, {KAFKA_VERSION: " 4.4.0 "}, "kafka:4.1.0") == "4.4"
    assert release_of({VERSION_LABEL: "4.1.0"}, {KAFKA_VERSION: "9.9"}, "kafka:4.1.0") == ""
    assert release_of({}, {KAFKA_VERSION: "4.4 or so"}, "kafka:4.1.0") == ""
