"""Identity of a controller as a voter from its server.properties: id, directory id, listeners.

Source: apache/kafka: tools/.../MetadataQuorumCommand.java, 4.3.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec
from typing_extensions import override

from cli.arguments import INT32_MAX, UsageError, shortened
from node.configs.properties import PropertiesError, parse_properties
from storage.errors import CorruptFileError
from storage.log_dir.meta_properties import read_meta_properties
from storage.os_vfs import OsVfs

_PORT_MAX: Final = 65535
_FILE: Final = "configuration file. Is this a valid controller configuration file?"


class ControllerEndpoint(msgspec.Struct, frozen=True):
    """A listener of a controller, and where other nodes reach it."""

    listener: str
    host: str
    port: int

    @override
    def __str__(self) -> str:
        """Return it as Kafka prints it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.listener}://{host}:{self.port}"


class ControllerToAdd(msgspec.Struct, frozen=True):
    """A formatted controller as it becomes a voter."""

    node_id: int
    directory_id: bytes
    """Of its metadata folder; 16 bytes."""
    endpoints: tuple[ControllerEndpoint, ...]
    """Of its controller listeners, the default one first; at least one."""
    folder: str
    """Its metadata log directory."""


def controller_of(path: Path) -> ControllerToAdd:
    """The controller that a server.properties and its metadata folder describe.

    Raises:
        UsageError: the file cannot be read, or does not describe a formatted controller; with
            Kafka's text if it has one.
    """
    properties = read_properties_file(path)
    if "node.id" not in properties:
        raise UsageError(f"node.id not found in {_FILE}")
    node_id = properties["node.id"].strip()
    if node_id.startswith("-") and _number(node_id[1:], INT32_MAX):
        raise UsageError(f"node.id was negative in {_FILE}")
    if _number(node_id, INT32_MAX) is None:
        raise UsageError(f"{path}: node.id '{_line(node_id)}' is no number from 0 to {INT32_MAX}")
    if "controller" not in properties.get("process.roles", ""):
        raise UsageError(f"process.roles did not contain 'controller' in {_FILE}")
    folder = properties.get("metadata.log.dir") or properties.get("log.dirs", "").split(",")[0]
    folder = (folder or properties.get("log.dir", "")).strip()
    if not folder:
        raise UsageError(
            "Neither metadata.log.dir nor log.dirs were found. Is this a valid controller "
            "configuration file?"
        )
    directory_id = _directory_id(folder)
    return ControllerToAdd(int(node_id), directory_id, _controller_endpoints(properties), folder)


def _directory_id(folder: str) -> bytes:
    try:
        found = read_meta_properties(OsVfs(), folder)
    except (CorruptFileError, OSError) as error:
        raise UsageError(f"{folder}: {error}") from error
    if found is None:
        raise UsageError(f"Unable to read meta.properties from {folder}")
    if found.directory_id is None:
        raise UsageError(f"No directory id found in {folder}")
    return bytes(found.directory_id)


def _controller_endpoints(properties: Mapping[str, str]) -> tuple[ControllerEndpoint, ...]:
    """Return the advertised listeners, else the bound ones, in the order of their names."""
    listeners = _listeners(properties.get("listeners", ""))
    listeners |= _listeners(properties.get("advertised.listeners", ""))
    if "controller.listener.names" not in properties:
        raise UsageError(
            "controller.listener.names was not found. Is this a valid controller configuration "
            "file?"
        )
    endpoints = []
    for name in properties["controller.listener.names"].upper().split(","):
        if name.strip() not in listeners:
            raise UsageError(
                f"Cannot find information about controller listener name: {_line(name.strip())}"
            )
        endpoints.append(listeners[name.strip()])
    return tuple(dict.fromkeys(endpoints))


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


def _listeners(text: str) -> dict[str, ControllerEndpoint]:
    """Listeners by name in upper case; one without a host is on this machine."""
    found = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        name, _, address = entry.partition("://")
        host, _, digits = address.rpartition(":")
        port = _number(digits, _PORT_MAX)
        if port is None or not name:
            raise UsageError(f"'{_line(entry)}' is not a listener: NAME://HOST:PORT")
        name = name.upper()
        found[name] = ControllerEndpoint(name, host.strip("[]") or "localhost", port)
    return found


def _number(digits: str, maximum: int) -> int | None:
    """A number from 0 to `maximum`, written in at most ten digits; None for anything else."""
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 10):
        return None
    return int(digits) if int(digits) <= maximum else None


def _line(value: str) -> str:
    return shortened(value).replace("\n", "\\n")
