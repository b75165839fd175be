"""Kinds of files with evidence about clients. The name of a file decides its kind."""

from __future__ import annotations

from enum import Enum

from kafkafeatures.client_files.reduced import SUFFIX
from kafkafeatures.client_files.scrapes import SUFFIX as SCRAPE_SUFFIX
from kafkafeatures.client_files.scrapes import ScrapeName, parse_name


class Kind(Enum):
    """Kind of a file, with its name in messages."""

    SCRAPE = "scrape"
    REDUCED = "reduced request log"
    REQUESTS = "request log"
    SERVER = "server log"
    ANY_LOG = "log"
    """The log of a container, which may have lines of the request log and of the server log."""


def kind_of(name: str) -> Kind | None:
    """The kind of a file; None for a file that is not evidence, such as `meta.properties`."""
    if name.removesuffix(".gz").endswith(SCRAPE_SUFFIX):
        return Kind.SCRAPE
    if name.endswith(SUFFIX):
        return Kind.REDUCED
    if ".log" not in name:
        return None
    return Kind.SERVER if name.startswith("server.log") else Kind.REQUESTS if "request" in name else Kind.ANY_LOG


def scrape_name(broker: int, name: str) -> ScrapeName | None:
    """Broker and time of a scrape; None if the name of the file has no valid time."""
    return parse_name(str(broker), name.removesuffix(".gz").removesuffix(SCRAPE_SUFFIX))


def broker_of(folder: str) -> int | None:
    """The broker whose files are in a folder of this name; None unless the name is its id."""
    name = parse_name(folder, "1000000000")  # any valid time: only the folder's name matters here
    return None if name is None else name.broker
