"""Reads profiles: named connections of a user, in `$XDG_CONFIG_HOME/kafkafeatures/config.toml`.

The keys of a profile are flags of a connection, and no others: a profile cannot confirm or approve anything, and holds
no secret, since it names files of client properties. Called by `connection_sources.py`.
"""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Any

from msgspec import Struct

from kafkafeatures.cli.shell.exit_codes import CommandFailed, Exit

_PATHS = ("config", "controller-config")
_KEYS = ("bootstrap-server", "bootstrap-controller", *_PATHS)


class Profile(Struct, frozen=True):
    """A named connection, with the values of its flags; None for a flag that it does not set. `file`: the file that has
    the profile.
    """

    name: str
    file: Path
    bootstrap_server: str | None
    bootstrap_controller: str | None
    config: Path | None
    controller_config: Path | None

    def __str__(self) -> str:
        return f"profile {self.name} in {self.file}"


def profiles_file() -> Path:
    """The file of all profiles, which need not exist."""
    home = Path(os.environ.get("XDG_CONFIG_HOME", ""))
    folder = home if home.is_absolute() else _expanded("~/.config")
    return folder / "kafkafeatures" / "config.toml"


def profile_named(name: str, source: str = "") -> Profile:
    """The profile of this name. `source`: what names it, if the user did not type it. Raises CommandFailed."""
    file = profiles_file()
    profiles = _profiles(_content(file), file)
    if name not in profiles:
        names = f"its profiles are {', '.join(profiles)}" if profiles else f"write it there, as [profiles.{name[:60]}]"
        raise _wrong(file, f"there is no profile {name[:60]!r}{f' ({source})' if source else ''}; {names}")
    return _profile(name, profiles[name], file)


def default_profile() -> Profile | None:
    """The profile that the key `default-profile` names; None without that key, or without a file. Raises
    CommandFailed.
    """
    file = profiles_file()
    name = _content(file).get("default-profile", "")
    if not isinstance(name, str):
        raise _wrong(file, "default-profile: expected the name of a profile in quotes")
    return profile_named(name, "default-profile") if name else None


def _content(file: Path) -> dict[str, Any]:
    """The content of the file; empty if there is none."""
    try:
        content = tomllib.loads(file.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise _wrong(file, str(error.strerror)) from None
    except UnicodeDecodeError:
        raise _wrong(file, "not a text file; expected TOML") from None
    except tomllib.TOMLDecodeError as error:
        raise _wrong(file, f"invalid TOML: {error}") from None
    _check_keys(content, ("default-profile", "profiles"), file, "")
    return content


def _profiles(content: dict[str, Any], file: Path) -> dict[str, Any]:
    profiles = content.get("profiles", {})
    if not isinstance(profiles, dict):
        raise _wrong(file, "profiles: expected tables, such as [profiles.prod]")
    return profiles


def _profile(name: str, content: Any, file: Path) -> Profile:
    if not isinstance(content, dict):
        raise _wrong(file, f"profiles.{name}: expected a table, such as [profiles.{name}]")
    _check_keys(content, _KEYS, file, f"profiles.{name}: ")
    for key, value in content.items():
        if not isinstance(value, str) or not value:
            raise _wrong(file, f"profiles.{name}.{key}: expected a text in quotes")
    # Paths are relative to the file, so that they mean the same in every working directory.
    paths = [file.parent / _expanded(content[key]) if key in content else None for key in _PATHS]
    return Profile(name, file, content.get("bootstrap-server"), content.get("bootstrap-controller"), *paths)


def _expanded(path: str) -> Path:
    return Path(os.path.expanduser(path))


def _check_keys(content: dict[str, Any], valid_keys: tuple[str, ...], file: Path, prefix: str) -> None:
    if wrong_key := next((key for key in content if key not in valid_keys), None):
        raise _wrong(file, f"{prefix}unknown key {wrong_key[:60]!r}; valid keys: {', '.join(valid_keys)}")


def _wrong(file: Path, problem: str) -> CommandFailed:
    return CommandFailed(f"{file}: {problem}", Exit.USAGE, what=problem, where=str(file))
