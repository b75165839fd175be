"""Errors of the conversation with a node, as a tree of exceptions, and `to_failure`, which makes messages of them.

    KafkaError                       `sent`: whether the request may have reached the node
    ├── AddressRefused               our own settings forbid the address; nothing was sent
    ├── Unreachable                  no connection: no route, name unknown, silent
    │   └── NotListening             the host refused it: no process listens there
    ├── TimedOut                     connected, no answer within the deadline
    ├── Disconnected                 the connection ended before the answer
    ├── TlsFailed                    the handshake failed, or one side speaks TLS and the other not
    ├── AuthenticationFailed         SASL said no, or no token could be had
    ├── NotKafka                     bytes that are no Kafka protocol
    ├── UnsupportedApi               the node has no version of the request that we speak; nothing was sent
    ├── Stale                        answers come, but no sign of a majority behind them
    ├── ResponseTooLarge             what the node sends takes more memory than it may (`memory_budget.py`)
    ├── RequestWithheld              we gave it up ourselves right before it was written; nothing was sent
    └── ServerError                  the node answered with an error code
        ├── NotAuthorized            an ACL is missing
        ├── WrongCluster             the node belongs to another cluster than the one that was named
        └── NoLeader                 no active controller is known, or this node is not it

The mapping to `Failure` (what people and conditions see) is `to_failure`, and nowhere else. A server's own words are
kept in the text. No text ever holds a password, a token or a key.
"""

from __future__ import annotations

from enum import IntEnum
from typing import ClassVar

from kafkafeatures.core.facts.readings import Failure, FailureKind
from kafkafeatures.core.words import printable


class ErrorCode(IntEnum):
    """The codes we treat by name (`Errors.java`). Others stay plain integers."""

    UNKNOWN_SERVER_ERROR = -1
    NONE = 0
    OFFSET_OUT_OF_RANGE = 1
    UNKNOWN_TOPIC_OR_PARTITION = 3
    LEADER_NOT_AVAILABLE = 5
    NOT_LEADER_OR_FOLLOWER = 6
    REQUEST_TIMED_OUT = 7
    REPLICA_NOT_AVAILABLE = 9
    NETWORK_EXCEPTION = 13
    TOPIC_AUTHORIZATION_FAILED = 29
    CLUSTER_AUTHORIZATION_FAILED = 31
    UNSUPPORTED_SASL_MECHANISM = 33
    ILLEGAL_SASL_STATE = 34
    UNSUPPORTED_VERSION = 35
    NOT_CONTROLLER = 41
    INVALID_REQUEST = 42
    POLICY_VIOLATION = 44
    SASL_AUTHENTICATION_FAILED = 58
    LISTENER_NOT_FOUND = 72
    FENCED_LEADER_EPOCH = 74
    UNKNOWN_LEADER_EPOCH = 75
    INVALID_UPDATE_VERSION = 95
    FEATURE_UPDATE_FAILED = 96
    SNAPSHOT_NOT_FOUND = 98
    POSITION_OUT_OF_RANGE = 99
    UNKNOWN_TOPIC_ID = 100
    BROKER_ID_NOT_REGISTERED = 102
    INCONSISTENT_TOPIC_ID = 103
    INCONSISTENT_CLUSTER_ID = 104
    MISMATCHED_ENDPOINT_TYPE = 114
    REBOOTSTRAP_REQUIRED = 129
    CONTROLLER_ID_NOT_REGISTERED = 136


def code_name(code: int) -> str:
    """An error code in messages: "NOT_CONTROLLER (41)", or the bare number of a code without a name here."""
    try:
        return f"{ErrorCode(code).name} ({code})"
    except ValueError:
        return f"error {code}"


class KafkaError(Exception):
    """Any failure of a conversation. `sent`: the request may have reached the node, its effect may still come."""

    kind: ClassVar[FailureKind] = FailureKind.REJECTED

    def __init__(self, text: str, *, remedy: str = "", sent: bool = False) -> None:
        super().__init__(printable(text))  # the server's own words may be in it
        self.remedy = remedy
        self.sent = sent


class Unreachable(KafkaError):
    """There is no connection."""

    kind = FailureKind.UNREACHABLE


class NotListening(Unreachable):
    """The connection was refused: no process listens at the port, if the address is that of the host itself."""

    kind = FailureKind.NOT_LISTENING

    def __init__(self) -> None:
        super().__init__("connection refused", remedy="check host, port and that the node runs")


class AddressRefused(KafkaError):
    """The settings of the operator forbid this address. All cases have one text, since details would help to map a
    network.
    """

    kind = FailureKind.FORBIDDEN

    def __init__(self) -> None:
        super().__init__(
            "the operator's settings do not allow this address",
            remedy="use another address, or ask the operator's administrator to allow it",
        )


class TimedOut(KafkaError):
    """There is a connection, but no answer in time. The connection is closed: a late answer would confuse it."""

    kind = FailureKind.TIMED_OUT


class Disconnected(KafkaError):
    """The node, or something between, ended the connection."""

    kind = FailureKind.DISCONNECTED


class TlsFailed(KafkaError):
    """The TLS handshake failed. It does not resolve by itself."""

    kind = FailureKind.TLS


class AuthenticationFailed(KafkaError):
    """The node rejects our credentials, or we could not get a token."""

    kind = FailureKind.AUTHENTICATION


class NotKafka(KafkaError):
    """The process that answers speaks another protocol."""

    kind = FailureKind.NOT_KAFKA


class UnsupportedApi(KafkaError):
    """The node does not advertise a version of this request that we speak. Nothing was sent (KIP-35)."""

    kind = FailureKind.UNSUPPORTED


class Stale(KafkaError):
    """A leader answers, but nothing proves that a majority of the controllers still follows it."""

    kind = FailureKind.STALE


class ResponseTooLarge(KafkaError):
    """The response takes more memory than it may (`memory_budget.py`)."""

    kind = FailureKind.TOO_LARGE


class RequestWithheld(KafkaError):
    """The caller's check right before sending (`withheld` of `Connection.change`) failed. Nothing was sent."""

    kind = FailureKind.NOT_ASKED


class ServerError(KafkaError):
    """The node answered with an error code."""

    def __init__(self, code: int, message: str | None, *, remedy: str = "", sent: bool = True) -> None:
        super().__init__(message or code_name(code), remedy=remedy, sent=sent)
        self.code = code


class NotAuthorized(ServerError):
    """An ACL is missing; `remedy` has the line that grants it."""

    kind = FailureKind.AUTHORIZATION


class WrongCluster(ServerError):
    """The node belongs to another cluster than the one the request named."""

    kind = FailureKind.WRONG_CLUSTER


class NoLeader(ServerError):
    """The node knows no active controller, or is not the active controller itself."""

    kind = FailureKind.NO_LEADER


def to_failure(error: KafkaError, location: str) -> Failure:
    """The Failure, for messages and conditions. `location`: the address, or the name of the request."""
    return Failure(error.kind, location, str(error), error.remedy)
