"""Text from others, made harmless for terminals and otherwise unchanged; times and durations in words."""

from __future__ import annotations

from datetime import timedelta

import pytest

from kafkafeatures.core.words import cut, format_left, format_span, printable, printable_lines

EVIL = "no\x1b[2J\x1b]52;c;cm0=\x07\x9b31m\u202eyes\nready: InSync\r\ttrue\x7f"


@pytest.mark.parametrize("text", ["Broker 4 only supports versions 7-25", "拒绝, naïve – ✓ 🎉", ""])
def test_printable_text_is_not_changed(text: str) -> None:
    assert printable(text) == text
    assert cut(text, 1000) == text


def test_control_characters_are_replaced_and_line_breaks_become_spaces() -> None:
    assert printable(EVIL) == "no�[2J�]52;c;cm0=��31m�yes ready: InSync  true�"
    assert printable(EVIL).isprintable()


def test_printable_lines_keep_line_feeds_and_tabs_and_replace_other_control_characters() -> None:
    assert printable_lines("a\n\tb\x1b[0m\r\n") == "a\n\tb�[0m \n"


@pytest.mark.parametrize("most", range(12))
def test_a_cut_text_has_at_most_the_given_bytes_and_no_half_character(most: int) -> None:
    made = cut("拒🎉é\x1b" * 5, most)
    assert len(made.encode()) <= most
    assert "拒🎉é�拒🎉é�".startswith(made)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.2, "1 s"), (59.5, "1 min"), (59, "59 s"), (61, "2 min"), (110, "2 min"), (7199, "120 min"), (82_801, "24 h")],
)
def test_the_remaining_time_of_a_wait_is_rounded_up_to_a_coarse_unit(seconds: float, text: str) -> None:
    assert format_left(timedelta(seconds=seconds)) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.5, "0.5 s"), (59, "59 s"), (60, "1 min"), (110, "1 min 50 s"), (900, "15 min"), (3600, "1 h"),
        (5400, "1 h 30 min"), (5461, "1 h 31 min"), (86_400, "24 h"), (172_740, "47 h 59 min"), (172_800, "2 d"),
        (604_800 + 3600, "7 d 1 h"), (172_860, "2 d"),
    ],
)  # fmt: skip
def test_a_duration_is_written_in_one_unit_or_two_adjacent_units(seconds: float, text: str) -> None:
    assert format_span(timedelta(seconds=seconds)) == text
