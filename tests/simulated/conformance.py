"""What the simulated API server shares with a real one: cases that run against both.

`tests/simulated/test_kubernetes.py` runs them on the simulated one, `tests/e2e/kubernetes/test_simulated.py` on a real
one with the CRD of this tree. A case speaks HTTP in the end: `ask(Request) -> Reply`, the events of a watch in a list.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.simulated.objects import OUR_KIND
from tests.simulated.requests import Reply, Request

Ask = Callable[[Request], Reply]
Json = dict[str, Any]

NAMESPACE = "default"
ALL = f"{OUR_KIND}/namespaces/{NAMESPACE}/kafkafeatures"
ONE = f"{ALL}/orders"
SPEC = {"cluster": {"bootstrapServers": "kafka:9092"}}


def apply(ask: Ask, name: str = "orders", **metadata: Any) -> Json:
    body = {"apiVersion": "kafkafeatures.dev/v1alpha1", "kind": "KafkaFeatures", "spec": SPEC}
    reply = ask(Request("POST", ALL, body={**body, "metadata": {"name": name, **metadata}}))
    assert reply.status == 201, reply.body
    made: Json = reply.body
    return made


def write(ask: Ask, made: Json, path: str = ONE, **query: str) -> Reply:
    return ask(Request("PUT", path, query, made))


def with_status(made: Json, **status: Any) -> Json:
    return {**made, "status": status}


def read(ask: Ask) -> Json:
    found: Json = ask(Request("GET", ONE)).body
    return found


def version(made: Json) -> str:
    return str(made["metadata"]["resourceVersion"])


def a_write_of_an_older_version_is_a_conflict_and_changes_nothing(ask: Ask) -> None:
    old = apply(ask)
    assert write(ask, with_status(old, changeCount=1), f"{ONE}/status").status == 200
    assert write(ask, with_status(old, changeCount=2), f"{ONE}/status").status == 409
    assert read(ask)["status"] == {"changeCount": 1}


def a_status_is_written_apart_from_the_spec(ask: Ask) -> None:
    made = apply(ask)
    changed = {**made, "spec": {**made["spec"], "suspend": True}, "status": {"changeCount": 1}}
    of_status = write(ask, changed, f"{ONE}/status").body
    assert (of_status["spec"]["suspend"], of_status["status"]["changeCount"]) == (False, 1)
    assert of_status["metadata"]["generation"] == 1
    of_spec = write(ask, {**of_status, "spec": changed["spec"], "status": {"changeCount": 2}}).body
    assert (of_spec["spec"]["suspend"], of_spec["status"]["changeCount"]) == (True, 1)
    assert of_spec["metadata"]["generation"] == 2


def what_the_schema_does_not_know_is_dropped_without_a_word(ask: Ask) -> None:
    made = apply(ask)
    reply = write(ask, with_status(made, changeCount=1, surprise={"a": 1}), f"{ONE}/status")
    assert (reply.status, reply.body["status"]) == (200, {"changeCount": 1})


def what_the_schema_refuses_is_422_and_changes_nothing(ask: Ask) -> None:
    made = apply(ask)
    assert write(ask, with_status(made, changeCount="one"), f"{ONE}/status").status == 422
    assert write(ask, {**made, "spec": {**SPEC, "mode": "Perhaps"}}).status == 422
    assert write(ask, {**made, "spec": {}}).status == 422
    assert read(ask) == made


def defaults_are_filled_in(ask: Ask) -> None:
    assert apply(ask)["spec"]["mode"] == "Apply"


def a_write_that_changes_nothing_makes_no_version(ask: Ask) -> None:
    made = write(ask, with_status(apply(ask), changeCount=1), f"{ONE}/status", fieldManager="a").body
    again = write(ask, made, f"{ONE}/status", fieldManager="a").body
    assert version(again) == version(made)


def a_dry_run_says_what_would_be_kept_and_keeps_nothing(ask: Ask) -> None:
    made = apply(ask)
    reply = write(ask, with_status(made, changeCount=1, surprise=1), f"{ONE}/status", dryRun="All")
    assert (reply.status, reply.body["status"]) == (200, {"changeCount": 1})
    assert read(ask) == made


def what_is_gone_is_404_and_its_name_may_live_again(ask: Ask) -> None:
    made = apply(ask)
    assert ask(Request("DELETE", ONE)).status == 200
    gone = ask(Request("GET", ONE))
    assert (gone.status, gone.body["details"]["name"]) == (404, made["metadata"]["name"])
    assert write(ask, with_status(made, changeCount=1), f"{ONE}/status").status == 404
    again = apply(ask)
    assert again["metadata"]["uid"] != made["metadata"]["uid"]
    forced = {**again, "metadata": {**again["metadata"], "uid": made["metadata"]["uid"]}, "status": {"changeCount": 1}}
    assert write(ask, forced, f"{ONE}/status").status == 409
    assert "status" not in read(ask)


def a_finalizer_keeps_what_is_being_deleted(ask: Ask) -> None:
    made = apply(ask, finalizers=["example.com/keep"])
    assert ask(Request("DELETE", ONE)).status == 200
    kept = read(ask)
    assert "deletionTimestamp" in kept["metadata"]
    assert kept["metadata"]["uid"] == made["metadata"]["uid"]
    assert write(ask, {**kept, "metadata": {**kept["metadata"], "finalizers": []}}).status == 200
    assert ask(Request("GET", ONE)).status == 404


def who_wrote_a_status_is_noted_with_the_time(ask: Ask) -> None:
    made = write(ask, with_status(apply(ask), changeCount=1), f"{ONE}/status", fieldManager="someone").body
    (entry,) = (one for one in made["metadata"]["managedFields"] if one["manager"] == "someone")
    assert entry["subresource"] == "status"
    assert entry["time"].endswith("Z")


def pages_show_one_moment(ask: Ask) -> None:
    for name in ("orders", "payments", "stock"):
        apply(ask, name)
    first = ask(Request("GET", ALL, {"limit": "2"})).body
    assert ask(Request("DELETE", f"{ALL}/stock")).status == 200
    rest = ask(Request("GET", ALL, {"limit": "2", "continue": first["metadata"]["continue"]})).body
    assert [one["metadata"]["name"] for one in first["items"] + rest["items"]] == ["orders", "payments", "stock"]
    assert version(rest) == version(first)
    assert not rest["metadata"].get("continue")


def a_watch_shows_what_came_after_a_version(ask: Ask) -> None:
    made = apply(ask)
    write(ask, with_status(made, changeCount=1), f"{ONE}/status")
    ask(Request("DELETE", ONE))
    events = ask(Request("GET", ALL, {"watch": "1", "resourceVersion": version(made), "timeoutSeconds": "1"})).body
    assert [one["type"] for one in events] == ["MODIFIED", "DELETED"]
    assert [int(version(one["object"])) > int(version(made)) for one in events] == [True, True]


def a_watch_from_a_compacted_revision_gets_410_and_one_from_a_list_continues(ask: Ask) -> None:
    made = apply(ask)
    (event,) = ask(Request("GET", ALL, {"watch": "1", "resourceVersion": "1", "timeoutSeconds": "1"})).body
    assert (event["type"], event["object"]["code"]) == ("ERROR", 410)
    listed = ask(Request("GET", ALL)).body
    write(ask, with_status(made, changeCount=1), f"{ONE}/status")
    (event,) = ask(Request("GET", ALL, {"watch": "1", "resourceVersion": version(listed), "timeoutSeconds": "1"})).body
    assert (event["type"], event["object"]["status"]) == ("MODIFIED", {"changeCount": 1})


# --- evictions ---

PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
BUDGETS = f"/apis/policy/v1/namespaces/{NAMESPACE}/poddisruptionbudgets"


def start_pod(ask: Ask, name: str, phase: str) -> str:
    """A pod that was bound to a node which is not there, so that nothing happens to it; its uid."""
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
    ask(Request("POST", f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts", body=account))
    spec = {
        "containers": [{"name": "kafka", "image": "kafka:4.1.2"}],
        "nodeName": "nowhere",
        "terminationGracePeriodSeconds": 600,
    }
    made = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": name}}, "spec": spec}
    reply = ask(Request("POST", PODS, body=made))
    assert reply.status == 201, reply.body
    running = ask(Request("PUT", f"{PODS}/{name}/status", body={**reply.body, "status": {"phase": phase}}))
    assert running.status == 200, running.body
    return str(reply.body["metadata"]["uid"])


def evict(ask: Ask, name: str, uid: str) -> Reply:
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"namespace": NAMESPACE, "name": name},
        "deleteOptions": {"preconditions": {"uid": uid}},
    }
    return ask(Request("POST", f"{PODS}/{name}/eviction", body=body))


def an_eviction_is_of_one_life_of_a_pod(ask: Ask) -> None:
    uid = start_pod(ask, "broker-0", "Running")
    refused = evict(ask, "broker-0", uid[:-1] + ("0" if uid[-1] != "0" else "1"))
    assert refused.status == 409
    assert refused.body["reason"] == "Conflict"
    assert "deletionTimestamp" not in ask(Request("GET", f"{PODS}/broker-0")).body["metadata"]
    assert evict(ask, "broker-0", uid).status == 201


def an_eviction_of_what_is_not_there_is_404(ask: Ask) -> None:
    assert evict(ask, "nobody-0", "00000000-0000-4000-8000-000000000000").status == 404


def pods_are_listed_by_their_labels(ask: Ask) -> None:
    start_pod(ask, "broker-1", "Running")
    start_pod(ask, "broker-2", "Running")
    listed = ask(Request("GET", PODS, {"labelSelector": "app=broker-2", "limit": "500"})).body
    assert [one["metadata"]["name"] for one in listed["items"]] == ["broker-2"]


def a_pod_is_listed_by_its_name(ask: Ask) -> None:
    start_pod(ask, "broker-4", "Running")
    start_pod(ask, "a-broker-4", "Running")
    listed = ask(Request("GET", PODS, {"fieldSelector": "metadata.name=broker-4", "limit": "500"})).body
    assert [one["metadata"]["name"] for one in listed["items"]] == ["broker-4"]


def who_has_set_an_annotation_is_noted_and_not_who_has_set_it_once_more(ask: Ask) -> None:
    start_pod(ask, "broker-5", "Running")
    pod = f"{PODS}/broker-5"
    for manager in ("first", "second"):
        answer = ask(Request("PATCH", pod, {"fieldManager": manager}, {"metadata": {"annotations": {"roll": "true"}}}))
        assert answer.status == 200, answer.body
    noted = [
        entry["manager"]
        for entry in ask(Request("GET", pod)).body["metadata"]["managedFields"]
        if "f:roll" in entry.get("fieldsV1", {}).get("f:metadata", {}).get("f:annotations", {})
    ]
    assert noted == ["first"]


def a_patch_of_an_older_version_is_a_conflict_and_changes_nothing(ask: Ask) -> None:
    start_pod(ask, "broker-6", "Running")
    pod = f"{PODS}/broker-6"
    older = version(ask(Request("GET", pod)).body)
    ask(Request("PATCH", pod, body={"metadata": {"annotations": {"roll": "true"}}}))
    change = {"metadata": {"resourceVersion": older, "annotations": {"roll": None}}}
    assert ask(Request("PATCH", pod, body=change)).status == 409
    assert ask(Request("GET", pod)).body["metadata"]["annotations"]["roll"] == "true"


def a_budget_that_allows_none_refuses_an_eviction_with_429(ask: Ask) -> None:
    uid = start_pod(ask, "broker-3", "Running")
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "none"},
        "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "broker-3"}}},
    }
    assert ask(Request("POST", BUDGETS, body=budget)).status == 201
    refused = evict(ask, "broker-3", uid)
    assert refused.status == 429
    assert refused.body["message"] == "Cannot evict pod as it would violate the pod's disruption budget."
    (cause,) = refused.body["details"]["causes"]
    assert cause["message"].startswith("The disruption budget none ")


CASES: tuple[Callable[[Ask], None], ...] = (
    a_write_of_an_older_version_is_a_conflict_and_changes_nothing,
    a_status_is_written_apart_from_the_spec,
    what_the_schema_does_not_know_is_dropped_without_a_word,
    what_the_schema_refuses_is_422_and_changes_nothing,
    defaults_are_filled_in,
    a_write_that_changes_nothing_makes_no_version,
    a_dry_run_says_what_would_be_kept_and_keeps_nothing,
    what_is_gone_is_404_and_its_name_may_live_again,
    a_finalizer_keeps_what_is_being_deleted,
    who_wrote_a_status_is_noted_with_the_time,
    pages_show_one_moment,
    a_watch_shows_what_came_after_a_version,
    a_watch_from_a_compacted_revision_gets_410_and_one_from_a_list_continues,
    an_eviction_is_of_one_life_of_a_pod,
    an_eviction_of_what_is_not_there_is_404,
    pods_are_listed_by_their_labels,
    a_pod_is_listed_by_its_name,
    who_has_set_an_annotation_is_noted_and_not_who_has_set_it_once_more,
    a_patch_of_an_older_version_is_a_conflict_and_changes_nothing,
    a_budget_that_allows_none_refuses_an_eviction_with_429,
)
