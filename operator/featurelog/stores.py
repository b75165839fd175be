"""Folders and object stores by URI: which are supported, the options of a URI, timeouts, and messages.

All modules that open inputs or write tables go through it. Credentials come from the environment, or from where the
store's own library looks for them (AWS: a profile, the role of a pod or machine); a URI that contains credentials is
refused, and is not printed. A data source of Spark sends this module to workers by value, with `parts`: of other
packages it may import pyarrow only.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import TypeVar
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from pyarrow import NativeFile
from pyarrow.fs import AwsStandardS3RetryStrategy, FileSelector, FileSystem, S3FileSystem, resolve_s3_region

CONNECT_SECONDS = 5
"""Seconds in which a connection must be established."""
SILENT_SECONDS = 10
"""Seconds without a byte of an answer until a request fails."""
ATTEMPTS = 3
"""Attempts of each request."""
AT_ONCE = 8
"""Parallel requests to a store while a run is planned. Each may take 16 MiB of memory, for a large object."""
_OPTIONS = ("region", "endpoint_override", "scheme")
"""Options that the URI of a bucket may have, by Arrow's names."""
_REGIONS = ("AWS_REGION", "AWS_DEFAULT_REGION")
_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
_SECRET = re.compile(r"(?i)secret|key|password|token|credential")
_LONGEST = 300  # characters of a message

_In = TypeVar("_In")
_Out = TypeVar("_Out")

_opened: dict[str, S3FileSystem] = {}
"""File systems by URI: each has its own connections, so one is kept for all requests."""

_LOST = "AWS Error NETWORK_CONNECTION"
_AWS = re.compile(r".*AWS Error (.+?) during (\w+) operation: (.*?)( \(Request ID: \S*\))?")
_REFUSED = {
    "NO_SUCH_BUCKET": "there is no such bucket",
    "NETWORK_CONNECTION": "the store cannot be reached: {why}",
    "REQUEST_TIMEOUT": "the store does not answer: {why}",
    "ACCESS_DENIED": "access denied ({operation})",
    "SIGNATURE_DOES_NOT_MATCH": "access denied: the secret key is not that of the access key ({operation})",
    "INVALID_ACCESS_KEY_ID": "access denied: the access key is unknown ({operation})",
}
"""Messages by Amazon's name of an error, as Arrow writes it."""
NO_CREDENTIALS_SET = (
    "no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a profile, or give the pod or machine a role"
)
_OF_DELTA = {
    r"no credentials found in chain|error occurred while loading credentials": NO_CREDENTIALS_SET,
    r"//169\.254\.169\.254/latest": NO_CREDENTIALS_SET,  # Amazon's; Google's service has the same address
    r"client error \(Connect\) (?P<why>.*)": "the store cannot be reached: {why}",
}
"""Messages by patterns of the texts of delta-rs about a store that did not answer, which may have a group `why`."""
_CODES = {
    "NoSuchBucket": "NO_SUCH_BUCKET",
    "AccessDenied": "ACCESS_DENIED",
    "SignatureDoesNotMatch": "SIGNATURE_DOES_NOT_MATCH",
    "InvalidAccessKeyId": "INVALID_ACCESS_KEY_ID",
}
"""Amazon's codes in answers of a store, which delta-rs repeats, with Arrow's names for them."""

_S3 = "s3://"
_NO_CREDENTIALS = (
    "credentials may not be part of a URI; give them in the environment (AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY), "
    "in a profile, or as the role of the pod"
)


class StoreError(ValueError):
    """A URI is invalid, or has an option that is not supported."""


def is_uri(path: str) -> bool:
    """True for a URI, False for a path."""
    return "://" in path


def open_store(uri: str) -> tuple[FileSystem, str]:
    """The file system, and the path in it. uri: a URI or an absolute path. Raises StoreError, OSError."""
    if not uri.startswith(_S3):
        check(uri)
        try:
            system, path = FileSystem.from_uri(uri)
        except ValueError as error:
            raise StoreError(f"{uri}: {error}; give a folder, or a URI like s3://bucket/prefix") from None
        return system, path.rstrip("/")
    bucket, prefix, options = _of_bucket(uri)
    if uri not in _opened:
        _opened[uri] = S3FileSystem(
            region=_region(bucket, options),
            scheme=options.get("scheme", "https"),
            endpoint_override=options.get("endpoint_override"),
            connect_timeout=CONNECT_SECONDS,
            request_timeout=SILENT_SECONDS,
            retry_strategy=AwsStandardS3RetryStrategy(max_attempts=ATTEMPTS),
        )
    return _opened[uri], f"{bucket}/{unquote(prefix)}".rstrip("/")


def new_file(output: str, path: str) -> NativeFile:
    """A new file at a path below a folder or URI, open for writing; in a store it appears as a whole, when it is
    closed. Raises OSError.
    """
    system, root = open_store(output)
    if not is_uri(output):
        system.create_dir(f"{root}/{path}".rpartition("/")[0])
    return system.open_output_stream(f"{root}/{path}")


def open_file(output: str, path: str) -> NativeFile:
    """The file at a path below a folder or URI, open for reading. Raises OSError."""
    system, root = open_store(output)
    return system.open_input_file(f"{root}/{path}")


def sizes(output: str, paths: Sequence[str]) -> list[int | None]:
    """The size of each file below a folder or URI in bytes; None: there is none. Raises OSError."""
    system, root = open_store(output)
    return [info.size for info in system.get_file_info([f"{root}/{path}" for path in paths])]


def remove_file(output: str, path: str) -> None:
    """Delete a file below a folder or URI, if it is there. Raises OSError."""
    system, root = open_store(output)
    with contextlib.suppress(FileNotFoundError):
        system.delete_file(f"{root}/{path}")


def remove_old(output: str, prefix: str, before: datetime) -> int:
    """Delete the files directly in a folder or URI whose names begin with `prefix` and that were written before this
    time. Returns their number. Raises OSError.
    """
    system, root = open_store(output)
    infos = system.get_file_info(FileSelector(root))
    old = [info for info in infos if info.base_name.startswith(prefix) and info.mtime and info.mtime < before]
    for info in old:
        remove_file(output, info.base_name)
    return len(old)


def each(ask: Callable[[_In], _Out], items: Iterable[_In], *places: str) -> Iterator[_Out]:
    """The result of `ask` for each item, in order; several at once if any of the places is an object store."""
    if not any(map(is_uri, places)):
        yield from map(ask, items)
        return
    pool = ThreadPoolExecutor(AT_ONCE)
    try:
        yield from pool.map(ask, items)
    finally:
        pool.shutdown(cancel_futures=True)


def version(file: NativeFile) -> str:
    """Metadata that changes when an object is replaced by another one of its name. "" for a file in a folder, which may
    grow while it is read.
    """
    return " ".join(f"{name}={value!r}" for name, value in sorted(file.metadata().items()))


def is_lost(error: Exception) -> bool:
    """True if a store cannot be reached at all: then nothing else in it can be read either."""
    return _LOST in str(error)


def reason(error: Exception) -> str:
    """The message of an error of a file system or store, in one line. Left out are the path that Arrow repeats, and
    words of a store about the request, which may contain the key that signed it.
    """
    message = getattr(error, "strerror", None) or str(error)
    message = re.sub(r"\x1b\[\d*m|\u21b3", "", message)  # delta-rs: a tree, in colours
    code = re.search(r"<Code>(\w{1,60})</Code>", message)
    text = " ".join(re.split(r"<\?xml|<Error>", message)[0].split())
    text = re.sub(r".*Detail: (\[errno \d+\] )?", "", text) + (f" {code[1]}" if code else "")
    if match := _AWS.fullmatch(text):
        parts = {"code": match[1], "operation": match[2], "why": match[3]}
        text = _REFUSED.get(match[1], "{code} ({operation}): {why}").format(**parts)
    elif code and code[1] in _CODES:
        text = _REFUSED[_CODES[code[1]]].format(operation="Delta table")
    for pattern, of_delta in _OF_DELTA.items():
        if match := re.search(pattern, text):
            text = of_delta.format(**match.groupdict())
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def check(uri: str) -> None:
    """Check that a URI may be used; any path may. Raises StoreError."""
    if uri.startswith(_S3):
        _of_bucket(uri)
    elif is_uri(uri):
        split = _split(uri)
        if ":" in split.netloc.rpartition("@")[0] or any(_SECRET.search(name) for name, _ in parse_qsl(split.query)):
            raise StoreError(f"{split.scheme}://{split.netloc.rpartition('@')[2]}{split.path}: {_NO_CREDENTIALS}")


def for_delta(uri: str) -> tuple[str, dict[str, str]]:
    """(path or URI, options) of a place for delta-rs. Raises StoreError, OSError."""
    if not uri.startswith(_S3):
        check(uri)
        return uri, {}
    bucket, prefix, options = _of_bucket(uri)
    delta_options = {
        "connect_timeout": f"{CONNECT_SECONDS}s",
        "max_retries": str(ATTEMPTS - 1),
        "AWS_REGION": _region(bucket, options) or "us-east-1",
    }
    if "AWS_ACCESS_KEY_ID" not in os.environ:  # else it looks for a profile only if the store is Amazon's
        delta_options["AWS_FORCE_CREDENTIAL_LOAD"] = "true"
    scheme = options.get("scheme", "https")
    if "endpoint_override" in options:
        delta_options["AWS_ENDPOINT_URL"] = f"{scheme}://{options['endpoint_override']}"
    if scheme == "http":
        delta_options["AWS_ALLOW_HTTP"] = "true"
    return f"s3://{bucket}/{prefix}".rstrip("/"), delta_options


def _of_bucket(uri: str) -> tuple[str, str, Mapping[str, str]]:
    """(bucket, prefix, options) of a URI. Raises StoreError, whose text never has credentials."""
    split = _split(uri)
    uri_shown = f"{_S3}{split.netloc.rpartition('@')[2]}{split.path}"
    if "@" in split.netloc:
        raise StoreError(f"{uri_shown}: {_NO_CREDENTIALS}")
    if not split.netloc or split.fragment or "//" in split.path:
        raise StoreError(f"{uri_shown}: expected s3://bucket/prefix")
    options = dict(parse_qsl(split.query, keep_blank_values=True))
    for name in options:
        if name not in _OPTIONS:
            options_known = ", ".join(_OPTIONS)
            hint = f"; {_NO_CREDENTIALS}" if _SECRET.search(name) else ""
            raise StoreError(
                f"{uri_shown}: unknown option {name[:40]!r} behind the '?'; expected {options_known}{hint}"
            )
    if options.get("scheme", "https") not in ("http", "https"):
        raise StoreError(f"{uri_shown}: option scheme: expected http or https")
    return split.netloc, split.path.strip("/"), options


def _split(uri: str) -> SplitResult:
    try:
        return urlsplit(uri)
    except ValueError as error:
        raise StoreError(f"{uri.partition('://')[0]}://...: not a URI: {error}") from None


def _region(bucket: str, options: Mapping[str, str]) -> str | None:
    """The region from the options, from the environment, or from Amazon's answer; None: the endpoint needs none."""
    regions = [options.get("region"), *map(os.environ.get, _REGIONS)]
    if any(regions) or "endpoint_override" in options or any(map(os.environ.get, _ENDPOINTS)):
        return next((region for region in regions if region), None)
    return str(resolve_s3_region(bucket))
