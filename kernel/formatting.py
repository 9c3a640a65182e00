"""Formatting of a node's log directories.

`meta.properties` goes into each, `bootstrap.checkpoint` into the metadata log directory, and there
too the checkpoint 0-0 of a quorum whose voters are in the log (KIP-853), and at a controller the
mark of an unproven voter (storage/log_dir/unproven_mark.py), which Kafka lacks. `meta.properties`
is written last: a directory that has it is completely formatted.
(apache/kafka: metadata/.../storage/Formatter.java)
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from kernel.config import NodeConfig
from kernel.kraft_version import UnsupportedFeatureError, checked_kraft_version
from kernel.quorum.unproven_voters import mark_new_folder
from kernel.quorum.voter_records import membership_records
from metadata.bootstrap import bootstrap_records
from metadata.features import KRAFT_VERSION, METADATA_VERSION_DEFAULT
from metadata.image import METADATA_VERSION
from metadata.schema import Record
from metadata.snapshot import encode_snapshot
from raft.membership.voter_history import Membership
from raft.membership.voters import VoterSet
from storage.errors import CorruptFileError
from storage.log_dir.bootstrap_checkpoint import write_bootstrap_checkpoint
from storage.log_dir.meta_properties import (
    META_PROPERTIES_NAME,
    MetaProperties,
    read_meta_properties,
    write_meta_properties,
)
from storage.log_dir.partition_directories import partition_directory_name
from storage.log_dir.snapshot_files import SnapshotFiles
from storage.segments.segment import LOG_SUFFIX
from storage.vfs import Vfs, join
from wire.types import (
    METADATA_TOPIC_NAME,
    DirectoryId,
    LeaderEpoch,
    NodeId,
    Offset,
    OffsetAndEpoch,
)

VOTERS_CHECKPOINT_ID: Final = OffsetAndEpoch(Offset(0), LeaderEpoch(0))
"""Id of the checkpoint with the initial voters: before the log, which gets them with epoch 1."""


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
    initial_voters: VoterSet | None = None
    """Voters that the quorum starts with, each with its directory id; None: static ones, or a node
    that finds them at the quorum. Needs `kraft.version` 1 among the features."""

    def __post_init__(self) -> None:
        """Assert the invariants."""
        assert METADATA_VERSION in self.features
        voters = () if self.initial_voters is None else self.initial_voters.keys
        assert all(key.directory_id is not None for key in voters), f"{voters=}"
        assert self.initial_voters is None or (voters and self.features.get(KRAFT_VERSION)), (
            f"{voters=} {self.features=}"
        )

    def directory_id_of(self, node_id: NodeId) -> DirectoryId | None:
        """Return the id that an initial voter's metadata directory gets; None if it is none."""
        keys = () if self.initial_voters is None else self.initial_voters.keys
        return next((key.directory_id for key in keys if key.id == node_id), None)


def format_directories(
    vfs: Vfs, config: NodeConfig, request: FormatRequest, new_uuid: Callable[[], bytes]
) -> list[str]:
    """Format the unformatted log directories; return them, the metadata log directory first.

    Raises:
        FormatError: a directory is formatted already (unless ignored), or for another node.
    """
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
        directory_id = None
        if path == config.metadata_log_dir:
            directory_id = request.directory_id_of(config.node_id)
            if config.is_controller and (config.voters or request.initial_voters):
                mark_new_folder(vfs, path)
            content = bootstrap_checkpoint(request.features, request.now_ms, request.credentials)
            write_bootstrap_checkpoint(vfs, path, content)
            if request.initial_voters is None:
                _remove_voters_checkpoint(vfs, path)
            else:
                level = request.features[KRAFT_VERSION]
                content = voters_checkpoint(request.initial_voters, level, request.now_ms)
                _write_voters_checkpoint(vfs, path, content)
        properties = MetaProperties(
            cluster_id=request.cluster_id,
            node_id=config.node_id,
            directory_id=directory_id or DirectoryId(new_uuid()),
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
    """Return the bytes of bootstrap.checkpoint: the first active controller writes them to the log.

    Its file is no snapshot of the log, and has no id.
    """
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


def voters_checkpoint(voters: VoterSet, level: int, now_ms: int) -> bytes:
    """Return the bytes of the checkpoint 0-0: kraft.version and the initial voters, no metadata.

    Kafka reads the clock for each of its three times; here all are `now_ms`.
    """
    return b"".join(
        encode_snapshot(
            (),
            level=METADATA_VERSION_DEFAULT,
            epoch=VOTERS_CHECKPOINT_ID.epoch,
            last_contained_timestamp_ms=now_ms,
            timestamp_ms=now_ms,
            control_records=membership_records(Membership(level, voters)),
        )
    )


def _write_voters_checkpoint(vfs: Vfs, log_directory: str, content: bytes) -> None:
    """Write the checkpoint 0-0, over one that an interrupted formatting left; durable on return."""
    directory = join(log_directory, partition_directory_name(METADATA_TOPIC_NAME, 0))
    vfs.make_directory(directory)
    vfs.sync_directory(log_directory)
    writer = SnapshotFiles(vfs, directory).writer(VOTERS_CHECKPOINT_ID)
    writer.append(content)
    writer.freeze()


def _remove_voters_checkpoint(vfs: Vfs, log_directory: str) -> None:
    """Remove the checkpoint 0-0 of an interrupted formatting with other voters than now.

    The node would take its level and its voters, and not be one of them by its new directory id.
    One beside a log or another snapshot, of a later level or damaged, is not of a formatting: it
    stays, and the start says what is wrong with it.
    """
    directory = join(log_directory, partition_directory_name(METADATA_TOPIC_NAME, 0))
    if not vfs.exists(directory):
        return
    files = SnapshotFiles(vfs, directory)
    has_log = any(name.endswith(LOG_SUFFIX) for name in vfs.list(directory))
    if has_log or files.list() != [VOTERS_CHECKPOINT_ID]:
        return
    try:
        checked_kraft_version(vfs, log_directory)
    except (UnsupportedFeatureError, CorruptFileError):
        return
    files.unlink(files.delete(VOTERS_CHECKPOINT_ID))
    vfs.sync_directory(directory)


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
