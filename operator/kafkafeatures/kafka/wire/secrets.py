"""Removes our own secrets from the answers of a peer.

A server knows the credentials that we sent, and may repeat them: in an error message, in a list, as a host name. Such
texts end up in statuses, Events and logs, which more people can read than may know a password. So each secret is
removed, also in encoded forms (URL, HTML, JSON, hexadecimal, base64). `connection.py` does that with every
answer; the contents of the metadata log are cleaned where they are read.

Names must stay usable: a short secret, or one that occurs in public settings, is not removed from names, so that the
password `kafka` does not damage the host name `kafka-0`.
"""

from __future__ import annotations

import dataclasses
import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any, TypeVar

from msgspec import Struct

from kafkafeatures.api.values import replace
from kafkafeatures.core.facts.releases import KAFKAS_FEATURES

T = TypeVar("T")

REMOVED = "***"
TEXTS = frozenset({"error_message", "partition_error_message", "mechanisms", "results"})
"""Fields of responses that only people read, not the program. If such a field is a mapping, its values are meant; its
keys are names.
"""

MIN_IN_NAMES = 6
"""Characters that a secret must have to be removed from names too, unless it is a part of public settings."""
MAX_CACHED = 128
"""Most characters of a text whose cleaned form is cached, since it may be a name that occurs again."""
WORD = 4
"""A secret with fewer characters is removed only as a whole word: otherwise parts of many words would go."""
MAX_TOKENS = 4
"""Fetched tokens that are remembered: the one in use, and those that a late answer may repeat."""

LONGEST = 4096
"""A longer string is cut to this many characters if there are secrets: a response may have a string of millions."""

_PROOFS = {
    ("p=", r"\bp=[a-z0-9+/]{27,}={0,2}"),  # the proof of SCRAM, with which a password can be guessed offline
    ("p%3d", r"(?:\b|%2C)p%3D[a-z0-9%]{27,}"),
    ("yz1iaxdz", r"\b(?-i:Yz1iaXdz)[a-z0-9+/_=%-]{8,}"),  # the whole message, in base64: c=biws...
    ("eyj", r"(?<![a-z0-9_-])(?-i:eyJ)[a-z0-9_-]{8,}\.[a-z0-9_-]+(?:\.[a-z0-9_-]*)?"),  # any JWT
}
"""Proofs and tokens that are removed from texts beside known secrets, as (hint, pattern): see `_Cleaner`."""


class Secrets:
    """The secrets of one cluster, shared by all connections to it. Empty where clients do not authenticate."""

    def __init__(self) -> None:
        self._known = _KnownSecrets()

    def add(self, *secrets: str) -> None:
        """Add secrets, which are removed from now on."""
        self._known.own.update(filter(None, secrets))
        self._known.cleaners = None

    def add_public(self, *words: str) -> None:
        """Add words that are no secrets: a secret that is part of one of them is not removed from names."""
        self._known.public.update(words)
        self._known.cleaners = None

    def add_token(self, token: str) -> None:
        """Add a fetched token, which is removed until `MAX_TOKENS` newer ones were fetched."""
        if token not in self._known.tokens:
            self._known.tokens.append(token)
            self._known.cleaners = None

    def share(self, other: Secrets) -> None:
        """Share the secrets with the settings of another listener of the cluster: a node may know a secret from one
        listener, and repeat it on the other.
        """
        other.add(*self._known.own)
        other.add_public(*self._known.public)
        self._known = other._known

    @property
    def has_any(self) -> bool:
        """True if there are any secrets."""
        return bool(self._known.own or self._known.tokens)

    def removed_from(self, answer: T) -> T:
        """The answer of a peer without secrets; the same object if there is nothing to remove."""
        known_secrets = self._known
        if not self.has_any:
            return answer
        texts, names = known_secrets.cleaners = known_secrets.cleaners or known_secrets.make_cleaners()
        cleaned: T = _parts(answer, lambda field: texts if field in TEXTS else names, names)
        return cleaned


class _KnownSecrets:
    """The secrets of a cluster, which the `Secrets` of its listeners share; `cleaners`: None until they are made."""

    def __init__(self) -> None:
        self.own: set[str] = set()
        self.public: set[str] = set()
        self.tokens: deque[str] = deque(maxlen=MAX_TOKENS)
        self.cleaners: tuple[_Cleaner, _Cleaner | None] | None = None  # of texts; of names

    def make_cleaners(self) -> tuple[_Cleaner, _Cleaner | None]:
        """(cleaner of texts, cleaner of names or None if no secret may be removed from names)."""
        secrets = {*self.own, *self.tokens}
        in_public = " ".join((*self.public, *KAFKAS_FEATURES)).casefold()
        sure = [secret for secret in secrets if len(secret) >= MIN_IN_NAMES and secret.casefold() not in in_public]
        texts = {shape for secret in secrets for shape in _shapes(secret)}
        names = {shape for secret in sure for shape in _shapes(secret)}
        return _Cleaner(texts | _PROOFS), _Cleaner(names) if names else None


class _Cleaner:
    """Replaces secrets in texts. `shapes`: pairs of a hint and a pattern; the slow pattern is used only if a hint, a
    plain text that each match contains, is in the string: most strings have none.
    """

    def __init__(self, shapes: set[tuple[str, str]]) -> None:
        self._hints = tuple({hint.casefold() for hint, _ in shapes})
        patterns = sorted((pattern for _, pattern in shapes), key=len, reverse=True)  # the longest first
        self._pattern = re.compile("|".join(patterns), re.IGNORECASE)
        self._longest = len(patterns[0])
        self._cached = lru_cache(maxsize=4096)(self._cleaned)  # most nodes send the same names

    def clean(self, text: str) -> str:
        return self._cached(text) if len(text) <= MAX_CACHED else self._cleaned(text)

    def _cleaned(self, text: str) -> str:
        cut = len(text) > LONGEST
        if cut:
            text = text[: LONGEST + self._longest]
        folded = text.casefold()
        if any(hint in folded for hint in self._hints):
            text = self._pattern.sub(REMOVED, text)
        return text[: -self._longest] if cut else text  # the cut may be inside of a secret


_NO_TEXT = (bytes, int, type(None))  # most values in an answer are of these types, and need no search


def _walk(value: Any, cleaner: _Cleaner | None, names: _Cleaner | None) -> Any:
    """The value cleaned by `cleaner`, and keys of mappings by `names`; the same object if nothing changes."""
    if cleaner is None or isinstance(value, _NO_TEXT):
        return value
    if isinstance(value, str):
        text = cleaner.clean(value)
        return value if text == value else text
    if isinstance(value, Struct):
        return _parts(value, lambda field: cleaner, names)
    if isinstance(value, Mapping):
        pairs = {_walk(key, names, names): _walk(element, cleaner, names) for key, element in value.items()}
        is_same = all(key in value and element is value[key] for key, element in pairs.items())
        return value if is_same else pairs
    if isinstance(value, tuple):
        items = tuple(_walk(element, cleaner, names) for element in value)
        if all(a is b for a, b in zip(items, value, strict=True)):
            return value
        return value._make(items) if hasattr(value, "_make") else items  # a named tuple stays one
    if dataclasses.is_dataclass(value):
        return _parts(value, lambda field: cleaner, names)
    return value


def _parts(value: Any, cleaner_of: Callable[[str], _Cleaner | None], names: _Cleaner | None) -> Any:
    """The object with its fields cleaned, each by the cleaner that `cleaner_of` its name gives."""
    changed = {}
    ours = isinstance(value, Struct)  # the others are dataclasses of kraftlog
    for name in value.__struct_fields__ if ours else [field.name for field in dataclasses.fields(value)]:
        part = getattr(value, name)
        if isinstance(part, _NO_TEXT):
            continue
        clean = _walk(part, cleaner_of(name), names)
        if clean is not part:
            changed[name] = clean
    return replace(value, **changed) if changed else value


def _shapes(secret: str) -> Iterator[tuple[str, str]]:
    """(hint, pattern) for each encoding in which a server may repeat the secret; both ignore case."""
    import base64  # what is only needed where there are secrets
    import html
    import json
    from urllib.parse import quote, quote_plus

    if len(secret) < WORD:
        yield secret, rf"(?<!\w){re.escape(secret)}(?!\w)"
        return
    raw = secret.encode(errors="replace")
    for text in (
        secret,
        quote(raw, safe=""),
        quote_plus(raw),
        quote_plus(quote_plus(raw)),
        html.escape(secret),
        json.dumps(secret)[1:-1],
        json.dumps(secret, ensure_ascii=False)[1:-1],
        raw.hex(),
        raw.hex(" "),
        "".join(f"%{byte:02x}" for byte in raw),
        raw.decode("latin-1"),  # UTF-8 that was taken for it
    ):
        yield text, re.escape(text)
    # In base64 within a longer text, such as a message of PLAIN: the secret may begin at one of three positions in a
    # group of three bytes. Characters that it shares with its neighbours are not part of the pattern.
    for offset in range(3):
        code = base64.b64encode(bytes(offset) + raw).decode().rstrip("=")
        first, last = (0, 2, 3)[offset], len(code) - ((offset + len(raw)) % 3 > 0)
        inner = code[first:last]
        if len(inner) >= WORD:
            either = re.escape(inner).replace(r"\+", r"(?:\+|-|%2B)").replace("/", r"(?:/|_|%2F)")
            pattern = rf"[a-z0-9+/_-]{{0,{first}}}{either}[a-z0-9+/_-]{{0,2}}(?:=|%3D){{0,2}}"
            yield max(re.split(r"[+/]", inner), key=len), pattern
