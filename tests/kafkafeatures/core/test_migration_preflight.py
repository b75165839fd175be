"""The findings of the preflight of a migration: each with its message and remedy, and all at once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.blockers import Blocker, grouped
from kafkafeatures.core.facts.observation import Unknown
from kafkafeatures.core.facts.settings import Setting, SettingSource
from kafkafeatures.core.migration.positions import Position
from kafkafeatures.core.migration.preflight import NAMES, NOT_DEFINED, ROWS, findings
from tests.kafkafeatures.core.preflight_cases import (
    BOTH,
    CASES,
    CONTROLLERS,
    OPA,
    WITH_CONTROLLERS,
    WITHOUT_CONTROLLERS,
    Case,
)
from tests.kafkafeatures.core.preflights import (
    ACLS,
    DEFAULTS,
    SECRETS,
    as_one,
    healthy,
    registered,
    secret,
    settings,
    with_node,
    with_observation,
    with_settings,
    with_znodes,
)
from tests.kafkafeatures.ensembles import claimed
from tests.kafkafeatures.worlds import SILENT, known


def matching(case: Case, reported: tuple[Blocker, ...]) -> list[Blocker]:
    return [
        blocker
        for blocker in reported
        if blocker.kind is case.kind and case.says in blocker.message and case.remedy in blocker.remedy
    ]


@pytest.mark.parametrize("end", BOTH)
def test_the_preflight_has_no_finding_for_a_healthy_cluster(end: Position) -> None:
    assert findings(healthy(end)) == ()


@pytest.mark.parametrize("name", CASES)
def test_each_preflight_failure_is_reported_with_a_remedy(name: str) -> None:
    case = CASES[name]
    for end in case.ends:
        reported = findings(case.change(healthy(end)))
        assert matching(case, reported), [str(blocker) for blocker in reported]
        assert all(blocker.remedy and blocker.message for blocker in reported)


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.ends == (WITH_CONTROLLERS,)])
def test_the_preflight_has_no_finding_on_controllers_before_there_are_controllers(name: str) -> None:
    case = CASES[name]
    assert not matching(case, findings(case.change(healthy(WITHOUT_CONTROLLERS))))


@pytest.mark.parametrize("end", [position for position in Position if position not in BOTH])
def test_the_preflight_of_any_other_edge_is_an_error(end: Position) -> None:
    with pytest.raises(ValueError, match=f"nothing is looked at before {end}$"):
        findings(replace(healthy(), end=end))


def test_nodes_with_the_same_finding_are_one_line() -> None:
    unset = settings()["inter.broker.protocol.version"]
    (line,) = grouped(findings(with_settings((1, 2), inter__broker__protocol__version=unset)(healthy())))
    assert str(line) == (
        "2 brokers (1, 2) do not set inter.broker.protocol.version; it follows the binary, and is 3.9-IV0 now; "
        "set inter.broker.protocol.version=3.9 on these brokers"
    )


def test_the_healthy_nodes_of_these_tests_report_exactly_the_settings_that_are_read() -> None:
    assert {*DEFAULTS, *SECRETS, *NOT_DEFINED} == NAMES


def test_a_setting_that_a_request_has_set_for_all_brokers_is_no_difference_to_controllers() -> None:
    """What a request has set is copied with the configs of brokers, and holds for controllers as well."""
    layers = {SettingSource.ALL_BROKERS: "true", SettingSource.DEFAULT: "false"}
    dynamic = Setting(SettingSource.ALL_BROKERS, "true", layers=layers)
    assert not findings(with_settings((1, 2), unclean__leader__election__enable=dynamic)(healthy()))


@pytest.mark.parametrize("name", ["another one", "Kafka's own"])
def test_an_authorizer_that_lets_brokers_register_is_no_finding(name: str) -> None:
    with_super_users = as_one(ACLS, with_settings(CONTROLLERS, super__users=secret()))
    the_same = with_settings((1, 2, *CONTROLLERS), authorizer__class__name=OPA)
    assert not findings((the_same if name == "another one" else with_super_users)(healthy()))


def test_allowing_everyone_where_no_acl_exists_lets_brokers_register() -> None:
    of_all = with_settings((1, 2, *CONTROLLERS), allow__everyone__if__no__acl__found=secret())
    assert not findings(as_one(ACLS, of_all)(healthy()))


def test_scram_is_no_finding_where_the_listener_of_controllers_uses_no_scram() -> None:
    listener = with_settings(
        (1, *CONTROLLERS),
        controller__listener__names="CONTROLLER",  # SSL, by the listener.security.protocol.map of `healthy`
        sasl__mechanism__controller__protocol="SCRAM-SHA-256",
    )
    assert not findings(listener(healthy()))


def test_the_active_controller_in_the_controller_znode_is_not_taken_for_one_of_an_earlier_migration() -> None:
    assert not findings(with_znodes(controller=claimed(3001, epoch=4))(healthy()))


def test_a_controller_znode_with_a_later_epoch_than_the_quorum_is_of_an_earlier_migration() -> None:
    preflight = with_znodes(controller=claimed(3001, epoch=5))(healthy())
    assert [finding.message for finding in findings(preflight)] == [
        "/controller names the KRaft controller 3001 at epoch 5, which is left from an earlier migration"
    ]


def test_a_broker_that_is_being_restarted_has_no_preflight_finding() -> None:
    away = as_one(
        with_node(2, answer=Unknown(SILENT), proved_at="", settings={}), with_znodes(brokers={1: registered(1)})
    )(healthy())
    assert len(findings(away)) == 2
    assert not findings(replace(away, flying=frozenset({2})))


def test_a_broker_without_a_znode_counts_as_registered_if_it_is_registered_with_the_quorum() -> None:
    preflight = with_znodes(brokers={1: registered(1)})(healthy())
    assert [finding.message for finding in findings(preflight)] == [
        "broker 2 has replicas, of orders-0 for example, but is not registered"
    ]
    assert not findings(with_observation(registered_brokers=known(frozenset({2})))(preflight))


def test_each_preflight_check_has_a_finding_in_some_case() -> None:
    silent = [
        row.check.__name__
        for row in ROWS
        if not any(any(row.check(case.change(healthy(end)))) for case in CASES.values() for end in row.ends)
    ]
    assert not silent


@given(st.lists(st.sampled_from(sorted(CASES)), unique=True, max_size=6), st.sampled_from(BOTH))
def test_no_preflight_check_raises_or_loses_its_finding_whatever_defects_are_combined(
    names: list[str], end: Position
) -> None:
    preflight, done = healthy(end), list[Case]()
    for name in names:
        try:
            preflight = CASES[name].change(preflight)
        except AssertionError:  # there is nothing left to spoil
            continue
        done.append(CASES[name])
    reported = findings(preflight)
    assert bool(reported) or not any(end in case.ends for case in done)
    assert sum(len(blocker.nodes) or 1 for blocker in grouped(reported)) == len(reported)


INDEPENDENT = (
    "broker that was not asked", "protocol unset", "id above the reserved ones", "combined node",
    "quorum that is not known", "passwords", "tokens", "policy", "default", "no super users", "ACLs of znodes",
    "another cluster", "KRaft id in /controller", "no epoch", "feature", "deletions", "reassignment",
    "replica on a broker that is gone", "finding of the copy", "no /migration after a minute",
)  # fmt: skip
"""Cases that can be combined: none undoes the defect of another one."""


@given(st.sets(st.sampled_from(INDEPENDENT), min_size=1))
def test_independent_findings_are_all_reported_together(names: set[str]) -> None:
    preflight = healthy()
    for name in INDEPENDENT:
        if name in names:
            preflight = CASES[name].change(preflight)
    reported = findings(preflight)
    for name in names:
        assert matching(CASES[name], reported), name
