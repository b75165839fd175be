"""Check of the rights that the user of an ensemble has to Kafka's znodes, for `check --rights --zookeeper`. It only
reads.

READ is proven by reading. WRITE and DELETE, which only the way back of a migration needs, are judged by the ACLs of the
znodes. How ZooKeeper identifies this client is not read: an identity that comes from a TLS certificate, or a
superuser's, is not known here.
"""

from __future__ import annotations

import asyncio

from kazoo.security import Permissions, make_digest_acl_credential
from msgspec import Struct

from kafkafeatures.core.facts.readings import Failure, FailureKind
from kafkafeatures.core.migration.delete_znodes import EPOCH
from kafkafeatures.kafka.base.errors import KafkaError, to_failure
from kafkafeatures.zookeeper.ensemble import Ensemble
from kafkafeatures.zookeeper.reader import CLUSTER_ID
from kafkafeatures.zookeeper.session import Session

READ = (
    CLUSTER_ID, EPOCH, "/brokers/ids", "/brokers/topics", "/config/brokers", "/config/topics", "/config/users",
    "/kafka-acl", "/delegation_token/tokens",
)  # fmt: skip
"""Znodes that are read as samples: one for each kind of metadata, including all that Kafka protects from readers."""
ALL = "all znodes"
SUPERUSER = "super"
"""User name of ZooKeeper's superuser, whom no ACL limits."""


class ZnodeRight(Struct, frozen=True):
    """A right on znodes.

    right: its name, such as READ.
    on: the znodes, for people.
    goal: what it is needed for.
    is_granted: a Failure if that is not known.
    missing_on: paths of znodes on which it is missing.
    """

    right: str
    on: str
    goal: str
    is_granted: bool | Failure
    missing_on: tuple[str, ...] = ()


async def znode_rights(ensemble: Ensemble, *, goes_back: bool) -> tuple[ZnodeRight, ...] | Failure:
    """The right to read; with `goes_back` also those that the transaction of the way back needs."""
    try:
        async with Session(ensemble) as session:
            rights = [await _reading(session)]
            if goes_back:
                goal = "go back from a migration: "
                rights += [
                    await _by_acl(session, ensemble, "WRITE", EPOCH, f"{goal}raise {EPOCH}"),
                    await _by_acl(session, ensemble, "DELETE", "/", f"{goal}delete /controller and /migration"),
                ]
            return tuple(rights)
    except KafkaError as error:
        return to_failure(error, f"ZooKeeper {ensemble}")


async def _reading(session: Session) -> ZnodeRight:
    goal = "read what Kafka keeps in ZooKeeper"
    outcomes = await asyncio.gather(*(_read(session, path) for path in READ))
    failures = [failure for failure in outcomes if failure is not None]
    denied = [
        failure.location.removeprefix("znode ") for failure in failures if failure.kind is FailureKind.AUTHORIZATION
    ]
    if denied:
        return ZnodeRight("READ", ALL, goal, False, tuple(denied))
    return ZnodeRight("READ", ALL, goal, failures[0] if failures else True)


async def _read(session: Session, path: str) -> Failure | None:
    """Read a znode and the first one below it; a Failure if one of them cannot be read."""
    znode = await session.get(path)
    child_names = await session.children(path) if not isinstance(znode, Failure) else znode
    if isinstance(child_names, Failure):
        return child_names
    first = await session.get(f"{path}/{child_names[0]}") if child_names else None
    return first if isinstance(first, Failure) else None


async def _by_acl(session: Session, ensemble: Ensemble, right: str, path: str, goal: str) -> ZnodeRight:
    """Judge a right by the ACL of a znode: granted, not granted, or not known."""
    shown_path = (ensemble.chroot or "/") if path == "/" else path  # the session's root is the chroot
    acls = await session.acl(path)
    if isinstance(acls, Failure):
        return ZnodeRight(right, shown_path, goal, acls)
    if acls is None:
        return ZnodeRight(
            right, shown_path, goal, Failure(FailureKind.REJECTED, f"znode {path}", "there is no such znode")
        )
    granting = [acl.id for acl in acls if acl.perms & getattr(Permissions, right)]
    if any(identity.scheme == "world" or identity.id in _identities(ensemble) for identity in granting):
        return ZnodeRight(right, shown_path, goal, True)
    if any(_may_be_ours(identity.scheme, identity.id, ensemble) for identity in granting):
        text = f"whether its ACL grants {right} to this user is not shown"
        remedy = f"see zookeeper-shell.sh HOST:PORT getAcl {shown_path}"
        return ZnodeRight(right, shown_path, goal, Failure(FailureKind.REJECTED, f"znode {shown_path}", text, remedy))
    return ZnodeRight(right, shown_path, goal, False, (shown_path,))


def _may_be_ours(scheme: str, identity: str, ensemble: Ensemble) -> bool:
    """True if an entry of an ACL may stand for this client. It may be its address or its certificate; a user without
    ADMIN on the znode is shown digests without their hash; and ZooKeeper's superuser needs no entry.
    """
    user = ensemble.digest.username if ensemble.digest is not None else ""
    return scheme not in ("digest", "sasl") or user == SUPERUSER or bool(user and identity == f"{user}:x")


def _identities(ensemble: Ensemble) -> frozenset[str]:
    """Ids of this client in ACLs."""
    digest = ensemble.digest
    if digest is None:
        return frozenset()
    return frozenset((make_digest_acl_credential(digest.username, digest.password),))
