"""`meta.properties`: cluster id, node id and directory id of a log directory."""

import base64
import binascii
import re
from typing import Final

import msgspec

from storage.errors import CorruptFileError
from storage.vfs import Vfs, join, write_file_atomically
from wire.types import (
    DIRECTORY_LOST,
    DIRECTORY_MIGRATING,
    DIRECTORY_UNASSIGNED,
    METADATA_TOPIC_ID,
    DirectoryId,
    NodeId,
)

_NODE_ID_MAX: Final = (1 << 31) - 1
_INTEGER: Final = re.compile(r"[+-]?\d{1,4300}")  # as Java parses; Python parses no more digits
META_PROPERTIES_NAME: Final = "meta.properties"
RESERVED_DIRECTORY_IDS: Final = frozenset(
    {DIRECTORY_LOST, DIRECTORY_MIGRATING, DIRECTORY_UNASSIGNED, METADATA_TOPIC_ID}
)
"""Ids with a meaning, which no log directory has."""


class MetaProperties(msgspec.Struct, frozen=True, gc=False):
    """The content; `directory_id` is None in directories that older Kafka versions formatted."""

    cluster_id: str
    node_id: NodeId
    directory_id: DirectoryId | None = None


def encode_uuid(uuid: bytes) -> str:
    """The 22 base64 characters that Kafka writes for 16 bytes."""
    assert len(uuid) == 16
    return base64.urlsafe_b64encode(uuid)[:22].decode()


def decode_uuid(text: str) -> bytes:
    """The 16 bytes of Kafka's 22 base64 characters.

    Raises:
        ValueError: the text is no such UUID.
    """
    try:
        uuid = base64.b64decode(text + "==", altchars=b"-_", validate=True)
    except binascii.Error as error:
        raise ValueError(f"{text!r} is not a UUID: {error}") from error
    if len(text) != 22 or len(uuid) != 16:
        raise ValueError(f"{text!r} is not a UUID of 22 characters")
    return uuid


def encode_meta_properties(properties: MetaProperties, date: str = "") -> bytes:
    """Version 1 in Java's properties format; `date` is the comment line that Java writes."""
    assert 0 <= properties.node_id <= _NODE_ID_MAX, f"{properties.node_id=}"
    assert properties.directory_id not in RESERVED_DIRECTORY_IDS, f"{properties.directory_id=}"
    assert "\n" not in date, f"{date=}"
    lines = ["#", f"#{date}", f"node.id={properties.node_id}"]
    if properties.directory_id is not None:
        lines.append(f"directory.id={encode_uuid(properties.directory_id)}")
    lines += ["version=1", f"cluster.id={properties.cluster_id}"]
    return ("\n".join(lines) + "\n").encode()


def decode_meta_properties(content: bytes, path: str) -> MetaProperties:
    """Read version 0 or 1; of a repeated key the last value counts, as in Java.

    Raises:
        CorruptFileError: a key is missing or wrong, with Kafka's text if it has one.
    """
    try:
        fields = _parse_properties(content.decode())
    except UnicodeDecodeError as error:
        raise CorruptFileError(path, f"not UTF-8: {error}") from error
    version = fields.get("version", "0")
    if version not in ("0", "1"):
        raise CorruptFileError(path, f"Unknown meta.properties version number {version}")
    node_text = fields.get("broker.id" if version == "0" else "node.id")
    if node_text is None:
        raise CorruptFileError(path, f"Error: node ID not found in {path}")
    if _INTEGER.fullmatch(node_text) is None:
        raise CorruptFileError(path, f"node.id {node_text!r} is not a number")
    node_id = NodeId(int(node_text))
    if not 0 <= node_id <= _NODE_ID_MAX:
        raise CorruptFileError(path, f"node.id {node_text} is not between 0 and {_NODE_ID_MAX}")
    cluster_id = fields.get("cluster.id")
    if cluster_id is None:
        raise CorruptFileError(path, "cluster.id was not found.")
    directory_id = None
    if "directory.id" in fields:
        text = fields["directory.id"]
        try:
            directory_id = DirectoryId(decode_uuid(text))
        except ValueError as error:
            raise CorruptFileError(path, f"Unable to read directory.id: {error}") from error
        if directory_id in RESERVED_DIRECTORY_IDS:
            raise CorruptFileError(path, f"Invalid reserved directory ID {text}")
    return MetaProperties(cluster_id, node_id, directory_id)


def _parse_properties(text: str) -> dict[str, str]:
    fields: dict[str, str] = {}
    for line in text.splitlines():
        content = line.strip()
        if not content or content[0] in "#!":
            continue
        at = min((i for i in (content.find("="), content.find(":")) if i >= 0), default=-1)
        key, value = (content, "") if at < 0 else (content[:at], content[at + 1 :])
        fields[key.strip()] = value.strip().replace("\\:", ":").replace("\\=", "=")
    return fields


def read_meta_properties(vfs: Vfs, log_directory: str) -> MetaProperties | None:
    """The properties of a directory; None if it is not formatted.

    Raises:
        CorruptFileError: the file is invalid.
    """
    path = join(log_directory, META_PROPERTIES_NAME)
    if not vfs.exists(path):
        return None
    return decode_meta_properties(vfs.read(path), path)


def write_meta_properties(
    vfs: Vfs, log_directory: str, properties: MetaProperties, date: str = ""
) -> None:
    """Write the file that makes the directory a formatted one; durable on return."""
    path = join(log_directory, META_PROPERTIES_NAME)
    write_file_atomically(vfs, path, encode_meta_properties(properties, date))
