"""Settings of notifications. Made by `cli/kube/notify_flags.py`, used by `notifier.py`."""

from __future__ import annotations

from msgspec import Struct

from kafkafeatures.core.report.notifications import NotificationEvent


class NotifySettings(Struct, frozen=True):
    """Settings of notifications.

    url_file: path of the file with the URL of the webhook, which is a secret.
    format: format of the bodies, one of `FORMATS` in `notify/formats.py`.
    events: events that people are notified of.
    allow_http: http is allowed also for a host that is not loopback.
    sender: name of this Kubernetes cluster, which begins each message; or empty.
    timeout: seconds of a request, from its connection to the first bytes of its answer.
    """

    url_file: str
    format: str = "json"
    events: frozenset[NotificationEvent] = frozenset(NotificationEvent)
    allow_http: bool = False
    sender: str = ""
    timeout: float = 10.0
