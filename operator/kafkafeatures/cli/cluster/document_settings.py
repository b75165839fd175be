"""Connection settings of a KafkaFeatures document (`-f FILE`), and the errors of documents.

Called by `connect.py` for commands about one cluster, and by `cli/document/`, which carries documents out.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kafkafeatures.api.document import InvalidDocument
from kafkafeatures.api.spec import KafkaFeatures
from kafkafeatures.api.values import replace
from kafkafeatures.cli.cluster.document_reader import STDIN, read_file
from kafkafeatures.cli.shell.exit_codes import CommandFailed, Exit
from kafkafeatures.core.words import printable
from kafkafeatures.kafka.base.settings import ClusterSettings, Security
from kafkafeatures.reconcile.credentials import CredentialsInvalid, secrets_in, settings_of
from kafkafeatures.reconcile.file_store import StateHeld, StateUnreadable


def settings_in_document(arguments: argparse.Namespace, security: tuple[Security, Security] | None) -> ClusterSettings:
    """The settings of the only document in the file of `-f`. `security`: that of flags; None without such flags. Raises
    CommandFailed.
    """
    if len(arguments.file) > 1:
        raise CommandFailed(f"-f is given {len(arguments.file)} times; this command is about one cluster", Exit.USAGE)
    (file,) = arguments.file
    with document_errors(file):
        resources, _ = read_file(file)
        if len(resources) != 1:
            raise InvalidDocument((f"{len(resources)} KafkaFeatures documents in it; this command expects one",))
        strimzi = resources[0].spec.cluster.strimzi
        if strimzi is not None and security is None:
            from kafkafeatures.cli.kube.strimzi_settings import settings_of_document

            if arguments.secrets_dir is not None:
                text = "its Secrets are read from Kubernetes; leave out --secrets-dir"
                raise InvalidDocument((f"spec.cluster.strimzi: {text}",))
            return settings_of_document(arguments, resources[0], strimzi)
        return settings_with_flags(resources[0], security, arguments.secrets_dir)


def settings_with_flags(
    resource: KafkaFeatures, security: tuple[Security, Security] | None, secrets_dir: Path | None
) -> ClusterSettings:
    """The settings of the document. `security`: replaces that of the document, whose Secrets are then not read. Raises
    what `document_errors` turns into CommandFailed.
    """
    if security is None:
        return settings_of(resource.spec.cluster, secrets_in(secrets_dir))
    if resource.spec.cluster.strimzi is not None:
        text = "Strimzi's resources say how to connect; leave out --config and --controller-config"
        raise InvalidDocument((f"spec.cluster.strimzi: {text}",))
    addresses = replace(resource.spec.cluster, tls=None, sasl=None, controller_listener=None)
    return replace(settings_of(addresses, secrets_in(None)), brokers=security[0], controllers=security[1])


def shown_file(file: Path) -> str:
    """Name of a file in messages."""
    return "stdin" if file == STDIN else str(file)


@contextmanager
def document_errors(path: Path, code: Exit = Exit.USAGE) -> Iterator[None]:
    """Turn errors of a document, its state file or its secrets into CommandFailed. `code`: of InvalidDocument; BLOCKED
    where a document that is valid asks for what cannot be.
    """
    try:
        yield
    except InvalidDocument as error:
        text = "\n".join(printable(f"{shown_file(path)}: {problem}") for problem in error.problems)
        raise CommandFailed(text, code, what="; ".join(error.problems), where=shown_file(path)) from None
    except StateHeld as error:
        raise CommandFailed(str(error), Exit.BLOCKED, where=shown_file(path)) from None
    except (CredentialsInvalid, StateUnreadable) as error:
        raise CommandFailed(str(error), Exit.USAGE, where=shown_file(path)) from None
    except OSError as error:
        name = error.filename if isinstance(error.filename, str) else "stdin"
        raise CommandFailed(f"{name}: {error.strerror}", Exit.USAGE, what=str(error.strerror), where=name) from None
