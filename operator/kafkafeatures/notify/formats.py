"""The bodies of notifications, by format of the receiver.

Pure. Called by `notifier.py`. What it decides: a message contains words of Kafka and of documents, so nowhere is it
read as markup: Slack's control characters are escaped, and Teams gets it as a run of text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec import Struct

from kafkafeatures.api.records import Json
from kafkafeatures.core.report.notifications import Notification
from kafkafeatures.kube.api import ResourceKey


class Message(Struct, frozen=True):
    """A notification, and the resource that it is about. `sender`: name of the Kubernetes cluster, or empty."""

    resource: ResourceKey
    uid: str
    notification: Notification
    sender: str = ""

    @property
    def text(self) -> str:
        """The whole message on one line."""
        subject, notification = f"{self.resource.namespace}/{self.resource.name}", self.notification
        title = f"{self.sender}: {subject}" if self.sender else subject
        return f"{title}: {notification.event.headline} ({notification.reason}): {notification.message}"


def _json(message: Message) -> Json:
    notification = message.notification
    return {
        "id": f"{message.uid}/{notification.key}/{notification.since}",
        "event": notification.event.value,
        "reason": notification.reason,
        "sender": message.sender,
        "namespace": message.resource.namespace,
        "name": message.resource.name,
        "subject": notification.subject,
        "since": notification.since,
        "message": notification.message,
        "text": message.text,
    }


def _slack(message: Message) -> Json:
    """https://docs.slack.dev/messaging/formatting-message-text: these three characters are to be escaped."""
    return {"text": message.text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")}


def _teams(message: Message) -> Json:
    """An Adaptive Card, as the webhooks of Teams' workflows take it. A TextRun, unlike a TextBlock, has no Markdown.
    https://adaptivecards.io/explorer/TextRun.html
    """
    block = {"type": "RichTextBlock", "inlines": [{"type": "TextRun", "text": message.text}]}
    card = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "body": [block],
    }
    attachment = {"contentType": "application/vnd.microsoft.card.adaptive", "content": card}
    return {"type": "message", "attachments": [attachment]}


FORMATS: Mapping[str, Callable[[Message], Json]] = {"json": _json, "slack": _slack, "teams": _teams}
"""Function that makes the body, by name of the format."""
