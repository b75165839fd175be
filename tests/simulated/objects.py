"""Objects of an API server as plain JSON: the paths they have, which a selector means, and copies of them."""

from __future__ import annotations

import marshal
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from kafkafeatures.api.names import GROUP, PLURAL, VERSION

Json = dict[str, Any]

OUR_KIND = f"/apis/{GROUP}/{VERSION}"
PATH = re.compile(
    r"(?P<api>/api/v1|/apis/[^/]+/[^/]+)(/namespaces/(?P<namespace>[^/]+))?/(?P<plural>[a-z]+)"
    r"(/(?P<name>[^/]+)(/(?P<subresource>status|eviction))?)?"
)


def collection_of(namespace: str) -> str:
    return f"{OUR_KIND}/namespaces/{namespace}/{PLURAL}" if namespace else f"{OUR_KIND}/{PLURAL}"


def is_in(path: str, collection: re.Match[str]) -> bool:
    if not path.startswith(collection["api"]):  # Events, mostly
        return False
    one = PATH.fullmatch(path)
    same = one is not None and (one["api"], one["plural"]) == (collection["api"], collection["plural"])
    return bool(same and one and collection["namespace"] in (None, one["namespace"]))


def is_selected(found: Json, selector: str) -> bool:
    """`selector`: equality alone, as in "a=b,c=d"."""
    labels = found["metadata"].get("labels") or {}
    return all(labels.get(one.partition("=")[0]) == one.partition("=")[2] for one in selector.split(",") if one)


def merged(there: Json, patch: Mapping[str, Any]) -> Json:
    """RFC 7386, without the deletion of fields."""
    for name, value in patch.items():
        there[name] = merged(there.get(name) or {}, value) if isinstance(value, Mapping) else value
    return there


def manage_annotations(before: Json, made: Json, manager: str) -> None:
    """Note in `managedFields` who set the annotations that a patch changed; what stays as it is keeps its manager."""
    old, new = (one["metadata"].get("annotations") or {} for one in (before, made))
    changed = {f"f:{name}" for name in {*old, *new} if old.get(name) != new.get(name)}
    there = {f"f:{name}" for name, value in new.items() if value is not None}
    owned: dict[str, set[str]] = {manager: changed & there}
    entries = before["metadata"].get("managedFields", ())
    for entry in (entry for entry in entries if "fieldsV1" in entry):
        names = {*entry["fieldsV1"]["f:metadata"]["f:annotations"]} - changed
        owned[entry["manager"]] = owned.get(entry["manager"], set()) | names
    made["metadata"]["managedFields"] = [entry for entry in entries if "fieldsV1" not in entry] + [
        {"manager": one, "fieldsV1": {"f:metadata": {"f:annotations": {name: {} for name in sorted(names)}}}}
        for one, names in owned.items()
        if names
    ]


def copied(value: Any) -> Any:
    """Plain JSON, anew."""
    return msgspec.json.decode(encoded(value))


def again(stored: Json) -> Json:
    """A copy of what is stored, which is plain already; `marshal` takes nothing else, and a third of the time."""
    made: Json = marshal.loads(marshal.dumps(stored))
    return made


encoded = msgspec.json.Encoder(enc_hook=dict).encode
