"""`partition.metadata`: the topic id of a partition directory."""

from typing import Final

from storage.errors import CorruptFileError
from storage.log_dir.meta_properties import decode_uuid, encode_uuid
from storage.vfs import Vfs, join, write_file_atomically
from wire.types import ZERO_UUID, TopicId

PARTITION_METADATA_NAME: Final = "partition.metadata"


def encode_partition_metadata(topic_id: TopicId) -> bytes:
    """The content: version 0, without a newline at the end."""
    assert topic_id != ZERO_UUID
    return f"version: 0\ntopic_id: {encode_uuid(topic_id)}".encode()


def decode_partition_metadata(content: bytes, path: str) -> TopicId:
    """The topic id in the content.

    Raises:
        CorruptFileError: not version 0, or no usable id.
    """
    try:
        lines = dict(line.split(": ", 1) for line in content.decode().split("\n") if line)
        version, topic_id = int(lines["version"]), decode_uuid(lines["topic_id"].strip())
    except (ValueError, KeyError) as error:
        raise CorruptFileError(path, f"not a partition.metadata file: {error}") from error
    if version != 0:
        raise CorruptFileError(path, f"Unrecognized version of partition metadata file: {version}")
    if topic_id == ZERO_UUID:
        raise CorruptFileError(path, "Invalid topic ID in partition metadata file (zero)")
    return TopicId(topic_id)


def read_partition_metadata(vfs: Vfs, partition_directory: str) -> TopicId | None:
    """The topic id of a directory; None if it has no such file."""
    path = join(partition_directory, PARTITION_METADATA_NAME)
    return decode_partition_metadata(vfs.read(path), path) if vfs.exists(path) else None


def write_partition_metadata(vfs: Vfs, partition_directory: str, topic_id: TopicId) -> None:
    """Write the file, durably; before the first append."""
    path = join(partition_directory, PARTITION_METADATA_NAME)
    content = encode_partition_metadata(topic_id)
    assert decode_partition_metadata(content, path) == topic_id, f"{topic_id=}"
    write_file_atomically(vfs, path, content)
