"""Bodies of notifications: what a receiver of each format reads, and that foreign words are no markup."""

from __future__ import annotations

from kafkafeatures.api.records import stamp
from kafkafeatures.cli.kube import notify_flags
from kafkafeatures.core.report.notifications import Notification, NotificationEvent
from kafkafeatures.kube.api import ResourceKey
from kafkafeatures.notify.formats import FORMATS, Message
from tests.kafkafeatures.worlds import NOW

HALT = Notification(
    NotificationEvent.HALTED, "RolloutHalted", "broker 3", "broker 3 & <!channel> **do** not answer", stamp(NOW)
)
MESSAGE = Message(ResourceKey("kafka", "orders"), "u1", HALT)
TEXT = "kafka/orders: the roll is halted (RolloutHalted): broker 3 & <!channel> **do** not answer"


def test_json_has_every_field_and_an_id_that_a_repetition_shares() -> None:
    body = FORMATS["json"](MESSAGE)
    assert body == {
        "id": f"u1/{HALT.key}/2026-01-02T03:04:05Z",
        "event": "Halted",
        "reason": "RolloutHalted",
        "sender": "",
        "namespace": "kafka",
        "name": "orders",
        "subject": "broker 3",
        "since": "2026-01-02T03:04:05Z",
        "message": "broker 3 & <!channel> **do** not answer",
        "text": TEXT,
    }


def test_slack_gets_text_in_which_nothing_is_a_mention_or_a_link() -> None:
    assert FORMATS["slack"](MESSAGE) == {
        "text": "kafka/orders: the roll is halted (RolloutHalted): broker 3 &amp; &lt;!channel&gt; **do** not answer"
    }


def test_teams_gets_a_card_whose_text_is_no_markdown() -> None:
    (attachment,) = FORMATS["teams"](MESSAGE)["attachments"]
    assert attachment["contentType"] == "application/vnd.microsoft.card.adaptive"
    (block,) = attachment["content"]["body"]
    assert block == {"type": "RichTextBlock", "inlines": [{"type": "TextRun", "text": TEXT}]}


def test_a_message_begins_with_its_sender() -> None:
    assert Message(MESSAGE.resource, "u1", HALT, "prod-eu").text == (f"prod-eu: {TEXT}")


def test_the_flags_offer_the_formats() -> None:
    assert tuple(FORMATS) == notify_flags.FORMATS
