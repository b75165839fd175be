"""`approve` as a process against a real API server: it approves one plan, by the plan's hash or a person's yes."""

from __future__ import annotations

import pytest

from tests.e2e.kubernetes.command_line.orders import CLUSTER, Orders
from tests.e2e.kubernetes.command_line.person import Person
from tests.kafkafeatures import statuses


def test_approve_writes_the_whole_hash_of_the_plan_into_the_annotation(orders: Orders, person: Person) -> None:
    orders.write(statuses.waiting_for_approval())
    hash_ = orders.status("orders")["plan"]["hash"]
    done = person.run("approve", "orders", "--plan", hash_[:15])  # "sha256:" and eight digits, the fewest allowed
    assert done.returncode == 0, done.stderr
    assert "1. metadata.version 21 (3.9-IV0) -> 27 (4.1-IV1)  irreversible" in done.stdout
    assert orders.annotations["kafkafeatures.dev/approve"] == hash_
    second = person.run("approve", "orders", "--yes")
    assert second.returncode == 0
    assert "already approved" in second.stdout


def test_wait_continues_after_an_approval_that_the_operator_has_not_read(orders: Orders, person: Person) -> None:
    orders.write(statuses.waiting_for_approval())
    assert person.run("wait", "orders").returncode == 3
    assert person.run("approve", "orders", "--yes").returncode == 0
    with person.running("wait", "orders") as wait:
        wait.until_it_says("ApprovalRequired")
        orders.write(statuses.in_sync())
        assert wait.ends() == 0


@pytest.mark.parametrize(
    ("status", "words", "code", "message"),
    [
        pytest.param(
            "in_sync", ("--yes",), 4, "no plan of people/orders is waiting for approval: InSync", id="no plan"
        ),
        pytest.param("stalled", ("--yes",), 4, "waiting for approval: GhostRegistration", id="a plan that is blocked"),
        pytest.param(
            "waiting_for_approval", ("--plan", "sha256:00000000"), 4, "not sha256:00000000", id="another plan"
        ),
        pytest.param("waiting_for_approval", ("--plan", "sha256:0000000"), 64, "invalid plan hash", id="seven digits"),
        pytest.param("waiting_for_approval", (), 3, "not a terminal; use --plan HASH or --yes", id="no terminal"),
    ],
)
def test_approve_writes_no_annotation_where_no_plan_can_be_approved(
    orders: Orders, person: Person, status: str, words: tuple[str, ...], code: int, message: str
) -> None:
    orders.write(getattr(statuses, status)())
    done = person.run("approve", "orders", *words)
    assert done.returncode == code
    assert message in done.stderr
    assert "kafkafeatures.dev/approve" not in orders.annotations


def test_a_plan_of_an_older_generation_is_not_approved(orders: Orders, person: Person) -> None:
    orders.write(statuses.waiting_for_approval(1))
    orders.apply("orders", {"metadata.version": 21}, **CLUSTER)  # generation 2
    done = person.run("approve", "orders", "--yes")
    assert done.returncode == 4
    assert "generation 2 is not reconciled yet" in done.stderr


@pytest.mark.parametrize(("answer", "code"), [("y", 0), ("n", 4), ("", 4), ("yesterday", 4)])
def test_approve_asks_on_a_terminal_and_only_the_answer_yes_approves(
    orders: Orders, person: Person, answer: str, code: int
) -> None:
    orders.write(statuses.waiting_for_approval())
    with person.at_terminal("approve", "orders") as approve:
        assert "Kafka refuses to undo the steps marked irreversible" in approve.reads("Approve this plan? [y/N] ")
        approve.enters(f"{answer}\n")
        assert approve.ends()[0] == code
    assert ("kafkafeatures.dev/approve" in orders.annotations) == (code == 0)


def test_an_approval_is_refused_if_the_plan_changed_while_the_user_was_asked(orders: Orders, person: Person) -> None:
    orders.write(statuses.waiting_for_approval())
    # A change of the status that leaves the plan as it is does not matter; one of the plan does.
    for change, code in (({"operatorVersion": "0.1.1"}, 0), ({"plan": {"hash": "sha256:" + "1" * 64}}, 4)):
        orders.annotate("orders", "kafkafeatures.dev/approve-")
        with person.at_terminal("approve", "orders") as approve:
            approve.reads("Approve this plan? [y/N] ")
            orders.write({**statuses.waiting_for_approval(), **change})
            approve.enters("y\n")
            ended, text = approve.ends()
            assert ended == code, text
    assert "is sha256:111111111111 now, not sha256:" in text
    assert "kafkafeatures.dev/approve" not in orders.annotations
