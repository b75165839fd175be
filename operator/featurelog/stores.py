"""Places by URI: which there are, what a URI may say, how long a store is waited for, and what is said when it refuses.

Called by whoever opens inputs (`layout`, `parts`) or writes an export. Credentials come from the environment, or from
where the store's own library looks for them (AWS: a profile, the role of a pod or machine); a URI with any in it is
refused, and is not printed. It goes to Spark's workers by value, with `parts`: of other packages it may import pyarrow
only.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from urllib.parse import parse_qsl, urlsplit

from pyarrow.fs import AwsStandardS3RetryStrategy, FileSystem, S3FileSystem, resolve_s3_region

CONNECT_SECONDS = 5
REQUEST_SECONDS = 30
ATTEMPTS = 3
_OPTIONS = ("region", "endpoint_override", "scheme")
"""What the URI of a bucket may say, as Arrow calls it."""
_REGIONS = ("AWS_REGION", "AWS_DEFAULT_REGION")
_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
_LONGEST = 300

_opened: dict[str, S3FileSystem] = {}


class StoreError(ValueError):
    """A URI that is not one, or says what it may not say."""


def is_uri(place: str) -> bool:
    """Rather than a path."""
    return "://" in place


def open_store(uri: str) -> tuple[FileSystem, str]:
    """The file system, and the path in it. uri: or an absolute path. Raises StoreError, OSError."""
    if not uri.startswith("s3://"):
        _refuse_credentials(uri)
        try:
            system, path = FileSystem.from_uri(uri)
        except ValueError as error:
            raise StoreError(f"{error}; give a folder, or a URI like s3://bucket/prefix") from None
        return system, path.rstrip("/")
    bucket, prefix, options = _of_bucket(uri)
    if uri not in _opened:
        _opened[uri] = S3FileSystem(
            region=_region(bucket, options),
            scheme=options.get("scheme", "https"),
            endpoint_override=options.get("endpoint_override"),
            connect_timeout=CONNECT_SECONDS,
            request_timeout=REQUEST_SECONDS,
            retry_strategy=AwsStandardS3RetryStrategy(max_attempts=ATTEMPTS),
        )
    return _opened[uri], f"{bucket}/{prefix}".rstrip("/")


def reason(error: Exception) -> str:
    """Why a system or a store refused, in one line. Arrow says where as well, which the line does already; what a
    store says of the request may name the key that signed it.
    """
    said = re.sub(
        r"\x1b\[\d*m|\u21b3", "", getattr(error, "strerror", None) or str(error)
    )  # delta-rs: a tree, in colours
    code = re.search(r"<Code>(\w{1,60})</Code>", said)
    text = " ".join(re.split(r"<\?xml|<Error>", said)[0].split())
    text = re.sub(r".*Detail: (\[errno \d+\] )?", "", text) + (f" {code[1]}" if code else "")
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def checked(uri: str) -> str:
    """The URI, if it may be used. Raises StoreError."""
    if uri.startswith("s3://"):
        _of_bucket(uri)
    else:
        _refuse_credentials(uri)
    return uri


def for_delta(uri: str) -> tuple[str, dict[str, str]]:
    """The place and the options that delta-rs wants for the same. Raises StoreError."""
    bucket, prefix, options = _of_bucket(uri)
    found = {
        "connect_timeout": f"{CONNECT_SECONDS}s",
        "timeout": f"{REQUEST_SECONDS}s",
        "max_retries": str(ATTEMPTS - 1),
        "AWS_REGION": _region(bucket, options) or "us-east-1",
    }
    scheme = options.get("scheme", "https")
    if "endpoint_override" in options:
        found["AWS_ENDPOINT_URL"] = f"{scheme}://{options['endpoint_override']}"
    if scheme == "http":
        found["AWS_ALLOW_HTTP"] = "true"
    return f"s3://{bucket}/{prefix}".rstrip("/"), found


def _of_bucket(uri: str) -> tuple[str, str, Mapping[str, str]]:
    """Bucket, prefix, options."""
    _refuse_credentials(uri)
    split = urlsplit(uri)
    shown = f"s3://{split.netloc}{split.path}"
    if not split.netloc or split.fragment:
        raise StoreError(f"{shown}: expected s3://bucket/prefix")
    options = dict(parse_qsl(split.query, keep_blank_values=True))
    for name in options:
        if name not in _OPTIONS:
            known = ", ".join(_OPTIONS)
            raise StoreError(f"{shown}: unknown option {name[:40]!r} behind the '?'; expected {known}")
    if options.get("scheme", "https") not in ("http", "https"):
        raise StoreError(f"{shown}: option scheme: expected http or https")
    return split.netloc, split.path.strip("/"), options


def _refuse_credentials(uri: str) -> None:
    if is_uri(uri) and "@" in urlsplit(uri).netloc:
        scheme, host = uri.partition("://")[0], urlsplit(uri).netloc.rpartition("@")[2]
        raise StoreError(
            f"{scheme}://...@{host}: credentials may not be part of a URI; give them in the environment "
            "(AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile, or the role of the pod)"
        )


def _region(bucket: str, options: Mapping[str, str]) -> str | None:
    """As said, as in the environment, or as Amazon answers; None where an endpoint does not care."""
    said = [options.get("region"), *map(os.environ.get, _REGIONS)]
    if any(said) or "endpoint_override" in options or any(map(os.environ.get, _ENDPOINTS)):
        return next((one for one in said if one), None)
    return str(resolve_s3_region(bucket))
