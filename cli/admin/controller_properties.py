"""Identity of a controller as a voter from its server.properties: id, directory id, listeners."""

from pathlib import Path
from typing import Final

from cli.arguments import INT32_MAX, UsageError, shortened
from node.configs.properties import PropertiesError, parse_properties
from storage.errors import CorruptFileError
from storage.log_dir.meta_properties import read_meta_properties
from storage.os_vfs import OsVfs

_PORT_MAX: Final = 65535


def controller_of(path: Path) -> tuple[int, bytes, list[tuple[str, str, int]]]:
    """(node id, directory id of the metadata folder, [(listener, host, port)]) of a controller.

    Raises:
        UsageError: the file cannot be read, or does not describe a formatted controller.
    """
    properties = read_properties_file(path)
    node_id = properties.get("node.id", "")
    if not node_id:
        raise UsageError(f"{path}: node.id not found in the controller's configuration")
    if _number(node_id, INT32_MAX) is None:
        raise UsageError(f"{path}: node.id '{_line(node_id)}' is no number from 0 to {INT32_MAX}")
    roles = [role.strip() for role in properties.get("process.roles", "").split(",")]
    if "controller" not in roles:
        raise UsageError(f"{path}: process.roles did not contain 'controller'")
    folder = properties.get("metadata.log.dir") or properties.get("log.dirs", "").split(",")[0]
    folder = (folder or properties.get("log.dir", "")).strip()
    if not folder:
        raise UsageError(f"{path}: neither metadata.log.dir nor log.dirs were found")
    try:
        found = read_meta_properties(OsVfs(), folder)
    except (CorruptFileError, OSError) as error:
        raise UsageError(f"{folder}: {error}") from error
    if found is None or found.directory_id is None:
        raise UsageError(f"Unable to read meta.properties from {folder}: it is not formatted")
    names = [name.strip() for name in properties.get("controller.listener.names", "").split(",")]
    listeners = _listeners(properties.get("advertised.listeners", ""))
    listeners |= {
        name: where
        for name, where in _listeners(properties.get("listeners", "")).items()
        if name not in listeners
    }
    endpoints = [(name, *listeners[name]) for name in names if name in listeners]
    if not endpoints:
        raise UsageError(f"{path}: no controller listeners were found")
    return int(node_id), bytes(found.directory_id), endpoints


def read_properties_file(path: Path) -> dict[str, str]:
    """Read a properties file.

    Raises:
        UsageError: it cannot be read.
    """
    try:
        return parse_properties(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{shortened(str(path))}: {error.strerror}") from error
    except (PropertiesError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: {error}") from error


def _listeners(text: str) -> dict[str, tuple[str, int]]:
    found = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        name, _, address = entry.partition("://")
        host, _, digits = address.rpartition(":")
        port = _number(digits, _PORT_MAX)
        if port is None:
            raise UsageError(f"'{_line(entry)}' is not a listener: NAME://HOST:PORT")
        found[name] = (host.strip("[]") or "localhost", port)
    return found


def _number(digits: str, maximum: int) -> int | None:
    """A number from 0 to `maximum`, written in at most ten digits; None for anything else."""
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 10):
        return None
    return int(digits) if int(digits) <= maximum else None


def _line(value: str) -> str:
    return shortened(value).replace("\n", "\\n")
