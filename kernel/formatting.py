"""Formatting of a node's log directories.

`meta.properties` goes into each, `bootstrap.checkpoint` into the metadata log directory. The
bootstrap snapshot is written first and `meta.properties` last: a directory that has the latter is
completely formatted. (apache/kafka: metadata/.../storage/Formatter.java)
"""

from collections.abc import Callable, Mapping, Sequence

import msgspec

from kernel.config import NodeConfig
from metadata.bootstrap import bootstrap_records
from metadata.image import METADATA_VERSION
from metadata.schema import Record
from metadata.snapshot import encode_snapshot
from storage.log_dir.bootstrap_checkpoint import write_bootstrap_checkpoint
from storage.log_dir.meta_properties import (
    META_PROPERTIES_NAME,
    MetaProperties,
    read_meta_properties,
    write_meta_properties,
)
from storage.vfs import Vfs, join
from wire.types import DirectoryId, LeaderEpoch


class FormatError(Exception):
    """The log directories cannot be formatted as requested; the text is one line for the user."""


class FormatRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Content of the log directories to format.

    `features` are finalized levels by name; `metadata.version` is among them and comes first.
    """

    cluster_id: str
    features: Mapping[str, int]
    ignore_formatted: bool = False
    now_ms: int
    date: str = ""
    """Date in the comment line of `meta.properties`."""
    credentials: tuple[Record, ...] = ()
    """Initial SCRAM credentials of the cluster."""


def format_directories(
    vfs: Vfs, config: NodeConfig, request: FormatRequest, new_uuid: Callable[[], bytes]
) -> list[str]:
    """Format the unformatted log directories; return them, the metadata log directory first.

    Raises:
        FormatError: a directory is formatted already (unless ignored), or for another node.
    """
    assert METADATA_VERSION in request.features
    directories = metadata_folder_first(config)
    unformatted = [path for path in directories if not _is_formatted(vfs, path, config, request)]
    formatted = [path for path in directories if path not in unformatted]
    if formatted and not request.ignore_formatted:
        raise FormatError(
            f"Log directory {formatted[0]} is already formatted. Use --ignore-formatted to ignore "
            "this directory and format the others."
        )
    for path in unformatted:
        vfs.make_directory(path)
        if path == config.metadata_log_dir:
            content = bootstrap_checkpoint(request.features, request.now_ms, request.credentials)
            write_bootstrap_checkpoint(vfs, path, content)
        properties = MetaProperties(
            cluster_id=request.cluster_id,
            node_id=config.node_id,
            directory_id=DirectoryId(new_uuid()),
        )
        write_meta_properties(vfs, path, properties, request.date)
    return unformatted


def metadata_folder_first(config: NodeConfig) -> list[str]:
    """Return every log directory once: the metadata log's, then the others in their order."""
    others = [path for path in config.log_dirs if path != config.metadata_log_dir]
    return [config.metadata_log_dir, *dict.fromkeys(others)]


def bootstrap_checkpoint(
    features: Mapping[str, int], now_ms: int, credentials: Sequence[Record] = ()
) -> bytes:
    """Return the bytes of the snapshot 0-0, which the first active controller writes to the log."""
    level = features[METADATA_VERSION]
    return b"".join(
        encode_snapshot(
            bootstrap_records(level, features, credentials),
            level=level,
            epoch=LeaderEpoch(0),
            last_contained_timestamp_ms=0,
            timestamp_ms=now_ms,
        )
    )


def _is_formatted(vfs: Vfs, path: str, config: NodeConfig, request: FormatRequest) -> bool:
    """True if the directory is already formatted for this node and cluster.

    Raises:
        FormatError: it is formatted for another node or cluster.
    """
    found = read_meta_properties(vfs, path)
    if found is None:
        return False
    where = join(path, META_PROPERTIES_NAME)
    if found.cluster_id != request.cluster_id:
        raise FormatError(
            f"Invalid cluster.id in: {where}. "
            f"Expected {request.cluster_id}, but read {found.cluster_id}"
        )
    if found.node_id != config.node_id:
        raise FormatError(
            f"Invalid node.id in: {where}. Expected {config.node_id}, but read {found.node_id}"
        )
    return True
