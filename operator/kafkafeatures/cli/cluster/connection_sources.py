"""Sources of a command's connection, and their order. Called by `connect.py` where a command connects to a cluster.

1. Flags. `-f FILE` and `--profile NAME` each stand for a whole connection, so they exclude `--bootstrap-*`; with them
   the environment counts for nothing.
   `bootstrap.servers` and `bootstrap.controllers` in a typed `--config` count as flags: its credentials are for them.
2. The environment: KAFKAFEATURES_BOOTSTRAP_SERVER without an address of a flag, KAFKAFEATURES_CONFIG without
   `--config`.
   A login or client key of KAFKAFEATURES_CONFIG is only used for the addresses in that file, if it has any.
3. The profile of KAFKAFEATURES_PROFILE, else the default profile, only if flags and environment name neither an address
   nor a file of client properties: so the credentials of a profile are never sent to an address that is from elsewhere.
4. The addresses in the client properties of KAFKAFEATURES_CONFIG or of a profile, if no address is named.

No source but flags confirms or approves anything.
"""

from __future__ import annotations

import argparse
import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from kafkafeatures.cli.shell.exit_codes import CommandFailed, Exit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkafeatures.cli.cluster.profiles import Profile
    from kafkafeatures.kafka.base.settings import Address

SERVER_VARIABLE, CONFIG_VARIABLE = "KAFKAFEATURES_BOOTSTRAP_SERVER", "KAFKAFEATURES_CONFIG"
PROFILE_VARIABLE = "KAFKAFEATURES_PROFILE"
_ADDRESSES, _CONFIGS = ("bootstrap_server", "bootstrap_controller"), ("config", "controller_config")
NO_CLUSTER = (
    f"no cluster given; use --bootstrap-server or --bootstrap-controller, --profile NAME, {SERVER_VARIABLE}, or "
    "bootstrap.servers in --config FILE"
)


def names_address(arguments: argparse.Namespace) -> bool:
    """Tell whether the arguments have an address of the cluster."""
    return any(getattr(arguments, name) for name in _ADDRESSES)


def names_cluster(arguments: argparse.Namespace) -> bool:
    """Tell whether a flag names the cluster, for commands that also work without one."""
    return names_address(arguments) or bool(arguments.file or arguments.profile)


def connection_flags_of(arguments: argparse.Namespace) -> list[str]:
    """The flags about the connection that were given, for commands that find the cluster in another way."""
    names = (*_ADDRESSES, *_CONFIGS, "profile", "file", "secrets_dir")
    return [f"--{name.replace('_', '-')}" for name in names if getattr(arguments, name, None)]


def check_connection_flags(arguments: argparse.Namespace) -> None:
    """Raise CommandFailed for flags that name two clusters, or two files of client properties."""
    for whole, excluded, subject in (
        ("file", ("profile", *_ADDRESSES), "the document names the cluster"),
        ("profile", (*_ADDRESSES, *_CONFIGS), "the profile names the cluster and its client properties"),
    ):
        other = next((name for name in excluded if getattr(arguments, name)), None)
        if getattr(arguments, whole) and other is not None:
            flag = "-f" if whole == "file" else f"--{whole}"
            text = f"{flag} and --{other.replace('_', '-')} cannot be combined: {subject}"
            raise CommandFailed(text, Exit.USAGE)


def fill_in(arguments: argparse.Namespace) -> None:
    """Set connection flags that were not given to the values of the other sources, and `connection_source` to the names
    of these. The addresses in a typed `--config` are set before. Raises CommandFailed for a profile that cannot be
    used.
    """
    if arguments.profile:
        from kafkafeatures.cli.cluster.profiles import profile_named

        _use_profile(arguments, profile_named(arguments.profile))
    else:
        has_flags = _has_connection(arguments)
        _use_environment(arguments)
        name = "" if has_flags else os.environ.get(PROFILE_VARIABLE, "")
        if name and _has_connection(arguments):
            text = f"{PROFILE_VARIABLE} and {arguments.connection_source} are both set; unset one, or use flags"
            raise CommandFailed(text, Exit.USAGE)
        if not _has_connection(arguments):
            from kafkafeatures.cli.cluster.profiles import default_profile, profile_named

            if (profile := profile_named(name, PROFILE_VARIABLE) if name else default_profile()) is not None:
                _use_profile(arguments, profile)


def _has_connection(arguments: argparse.Namespace) -> bool:
    return any(getattr(arguments, name) for name in (*_ADDRESSES, *_CONFIGS))


def is_of_profile(arguments: argparse.Namespace) -> bool:
    """Tell whether the connection that `fill_in` set is that of a profile."""
    return str(arguments.connection_source).startswith("profile ")


def check_credentials_are_for(addresses: Sequence[Address], own: Sequence[Address], config: Path | None) -> None:
    """Raise CommandFailed if the credentials of KAFKAFEATURES_CONFIG would be used for an address that is not in its
    file: it may be that of another cluster. `own`: the addresses in the file; empty if it names none, or has no
    credentials, or was typed.
    """
    names = {str(address).lower() for address in own}
    other = next((address for address in addresses if own and str(address).lower() not in names), None)
    if other is not None:
        file = shlex.quote(str(config))
        text = (
            f"{other} is not among the addresses in {file} ({CONFIG_VARIABLE}), so its credentials are not used there"
        )
        remedy = f"add --config {file} to use them, or the --config of that cluster"
        raise CommandFailed(f"{text}; {remedy}", Exit.USAGE)


def _use_environment(arguments: argparse.Namespace) -> None:
    sources = []
    if not names_address(arguments) and (server := os.environ.get(SERVER_VARIABLE)):
        arguments.bootstrap_server = server
        sources.append(SERVER_VARIABLE)
    if not arguments.config and (config := os.environ.get(CONFIG_VARIABLE)):
        arguments.config = Path(config)
        sources.append(CONFIG_VARIABLE)
    arguments.connection_source = " and ".join(sources)


def _use_profile(arguments: argparse.Namespace, profile: Profile) -> None:
    for name in (*_ADDRESSES, *_CONFIGS):
        setattr(arguments, name, getattr(profile, name))
    arguments.connection_source = str(profile)
