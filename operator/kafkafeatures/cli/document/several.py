"""Runs `plan` or `apply` for one or several documents. With several each result has a heading. There is one exit code
for all.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence

from kafkafeatures.api.records import Json
from kafkafeatures.cli.cluster.document_settings import shown_file
from kafkafeatures.cli.document.documents import Document
from kafkafeatures.cli.shell.exit_codes import SEVERITY, CommandFailed, Exit, worst
from kafkafeatures.cli.shell.output import console, print_document, tell, tell_failed


def each(
    arguments: argparse.Namespace,
    documents: Sequence[Document],
    work: Callable[[argparse.Namespace, Document], tuple[Exit, Json | None]],
    form: str,
) -> int:
    """Run `work` for one document after the other, print its results in this form (a value of `-o`; empty if `work`
    prints them itself), and return the worst exit code.

    `work` itself refuses a document whose cluster an earlier document in mode Apply owns.
    """
    if len(documents) == 1:
        code, result = work(arguments, documents[0])
        if result is not None:
            print_document(result, form)
        return code
    codes: dict[str, Exit] = {}
    results: list[Json] = []
    for document in documents:
        _head(f"{document} ({shown_file(document.file)})", errors=form != "table", first=not codes)
        try:
            codes[str(document)], result = work(arguments, document)
        except CommandFailed as failed:
            tell_failed(failed, form)
            codes[str(document)], result = failed.code, None
        if result is not None and form == "yaml":
            print_document(result, form, another=bool(results))
        results += [] if result is None else [result]
    if form == "json":  # only now: all results are one JSON document
        print_document({"apiVersion": "v1", "kind": "List", "items": results}, form)
    code = worst(codes.values())
    if code is not Exit.DONE:
        by_code = sorted(codes.items(), key=lambda item: -SEVERITY.index(item[1]))
        tell("; ".join(f"{name}: {code.name.lower()} ({code})" for name, code in by_code))
    return code


def _head(text: str, *, errors: bool, first: bool) -> None:
    """Print a heading, on stderr if stdout is for documents. A blank line comes before all but the first."""
    from rich.text import Text

    out = console(errors=errors)
    if not first:
        out.print()
    out.print(Text(text, "bold"), soft_wrap=True)
