"""Resolves Kafka's `config.providers` in client properties: references to values in a file, a folder or the
environment.

Called by `client_config.py`. A reference that cannot be resolved is an error, so that it is not sent as a password.
Only the classes of `org.apache.kafka.common.config.provider` are supported.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path

_REFERENCE = re.compile(r"\$\{([^}]*?):(([^}]*?):)?([^}]*?)\}")
"""Provider, path (may be left out) and key, as in `ConfigTransformer.java`."""
_UNRESOLVED = re.compile(r"""(?:^|["'=\s])\\*\$\{""")
"""A remaining `${` at the beginning of a value or of a JAAS option. A backslash before it does not help: JAAS removes
it.
"""
_PACKAGE = "org.apache.kafka.common.config.provider."
_PROVIDERS = "config.providers"


class ProviderError(ValueError):
    """A reference that cannot be resolved. `str()` names property, provider and place, never a value."""


Reader = Callable[[str, str, Mapping[str, str]], str]
"""Function of a provider that reads a value by path, key and the provider's parameters."""


def resolved(properties: Mapping[str, str], parse: Callable[[str], dict[str, str]]) -> dict[str, str]:
    """The properties with every reference replaced by its value, and without `config.providers*` themselves. `parse`
    parses a properties file. Providers that no value refers to are not checked. Raises ProviderError.
    """
    names = [name.strip() for name in properties.get(_PROVIDERS, "").split(",") if name.strip()]
    values = {}
    for key, value in properties.items():
        if key == _PROVIDERS or key.startswith(f"{_PROVIDERS}."):
            continue

        def read(match: re.Match[str], key: str = key) -> str:
            if match.string[: match.start()].endswith("\\"):  # Kafka would replace it and keep the backslash
                raise ProviderError(f"{key}: \\${{ does not escape: Kafka replaces a reference also after a backslash")
            provider, path, name = match[1].strip(), (match[3] or "").strip(), match[4].strip()
            if provider not in names:
                declared = ", ".join(names) or "none"
                raise ProviderError(f"{key} names the provider {provider!r}, and {_PROVIDERS} lists {declared}")
            try:
                value = _reader(provider, properties, parse)(path, name, _parameters(provider, properties))
                # probably a template that was not filled in; Kafka itself would send it as it is
                if value.startswith("${"):
                    raise ProviderError(f"the value of {name} begins with ${{, and is not resolved again")
                return value
            except ProviderError as error:
                raise ProviderError(f"{key}: provider {provider}: {error}") from None

        values[key] = _REFERENCE.sub(read, value)
        if _UNRESOLVED.search(_REFERENCE.sub("", value)):
            raise ProviderError(f"{key} begins with ${{ and names no provider: expected ${{provider:path:key}}")
    return values


def _reader(name: str, properties: Mapping[str, str], parse: Callable[[str], dict[str, str]]) -> Reader:
    """The function of the provider with this name. Raises ProviderError unless its class is supported."""
    declared = properties.get(f"{_PROVIDERS}.{name}.class", "")
    kind = declared.removeprefix(_PACKAGE)

    def of_file(path: str, key: str, parameters: Mapping[str, str]) -> str:
        values = parse(_text(_allowed(path, parameters)))
        if key not in values:
            raise ProviderError(f"{path} has no {key}")
        return values[key]

    def of_directory(path: str, key: str, parameters: Mapping[str, str]) -> str:
        if Path(key).name != key:
            raise ProviderError(f"{key} is not the name of a file in {path}")
        return _text(_allowed(path, parameters) / key)

    def of_environment(path: str, key: str, parameters: Mapping[str, str]) -> str:
        pattern = parameters.get("allowlist.pattern")
        if path or key not in os.environ or (pattern and not re.fullmatch(pattern, key)):
            raise ProviderError(f"there is no environment variable {key} that it may read")
        return os.environ[key]

    readers: dict[str, Reader] = {
        "FileConfigProvider": of_file, "DirectoryConfigProvider": of_directory, "EnvVarConfigProvider": of_environment
    }  # fmt: skip
    if kind not in readers:
        classes = ", ".join(readers)
        problem = f"its class {declared} is not supported" if declared else f"{_PROVIDERS}.{name}.class is not set"
        raise ProviderError(f"{problem}; supported are {classes}; else write the value itself")
    return readers[kind]


def _parameters(name: str, properties: Mapping[str, str]) -> Mapping[str, str]:
    """The properties `config.providers.NAME.param.*`, without that prefix."""
    prefix = f"{_PROVIDERS}.{name}.param."
    return {key.removeprefix(prefix): value for key, value in properties.items() if key.startswith(prefix)}


def _allowed(path: str, parameters: Mapping[str, str]) -> Path:
    """The path of a reference. Raises ProviderError if it is empty, or if `allowed.paths` (Kafka 3.8) forbids it."""
    allowed = [
        Path(entry.strip()).resolve() for entry in parameters.get("allowed.paths", "").split(",") if entry.strip()
    ]
    file = Path(path)
    if not path:
        raise ProviderError("the reference names no path: expected ${provider:path:key}")
    if allowed and not any(file.resolve().is_relative_to(entry) for entry in allowed):
        raise ProviderError(f"{path} is in none of its allowed.paths")
    return file


def _text(path: Path) -> str:
    """The content of a file. Raises ProviderError if it cannot be read."""
    try:
        return path.read_bytes().decode("utf-8")  # read_text would change line ends, which Kafka keeps
    except OSError as error:
        raise ProviderError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ProviderError(f"{path}: not a text file") from None
