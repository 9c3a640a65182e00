"""The identity of a node: its log directories are locked and checked before they are opened."""

from collections.abc import Callable
from typing import Final

import msgspec

from kernel.config import NodeConfig
from kernel.formatting import (
    FormatRequest,
    format_directories,
    metadata_folder_first,
)
from metadata.features import METADATA_VERSION_DEFAULT, served_levels
from node.errors import StartError, shortened
from raft.membership.voters import VoterSet
from storage.log_dir.directory_lock import lock_directory
from storage.log_dir.meta_properties import META_PROPERTIES_NAME, read_meta_properties
from storage.vfs import Lock, Vfs, join
from wire.types import DirectoryId

CLUSTER_ID_CHARACTERS_MAX: Final = 1000
InitialVoters = Callable[[NodeConfig], VoterSet | None]
"""Gives the voters that a new dynamic quorum starts with; None for a node that joins one."""


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """Cluster id and directory ids from `meta.properties`; `locks` are held while it exists."""

    cluster_id: str
    directory_ids: dict[str, DirectoryId]
    """Ids of all log directories, by path."""
    locks: tuple[Lock, ...]


def check_cluster_id(text: str) -> None:
    """Check that a cluster id can be stored in `meta.properties` and read back unchanged.

    Kafka accepts any text, even an empty one, which clients cannot tell from a missing cluster id.

    Raises:
        StartError: it cannot; the text names the allowed form.
    """
    is_plain = text.isascii() and text.isprintable() and "\\" not in text and text == text.strip()
    if not is_plain or not 1 <= len(text) <= CLUSTER_ID_CHARACTERS_MAX:
        raise StartError(
            f"cluster id {shortened(text)!r}; allowed: 1 to {CLUSTER_ID_CHARACTERS_MAX} printable "
            "ASCII characters, no backslash, no blanks around them, as `kraftline storage "
            "random-uuid` makes them"
        )


def prepare(
    vfs: Vfs,
    config: NodeConfig,
    format_cluster_id: str | None,
    new_uuid: Callable[[], bytes],
    wall_ms: int,
    initial_voters: InitialVoters | None = None,
) -> Identity:
    """Lock every log directory, format unformatted ones if requested, and check the others.

    Raises:
        StartError, LockedDirectoryError, FormatError, CorruptFileError: one line for the operator.
    """
    folders = metadata_folder_first(config)
    voters = None
    if format_cluster_id is not None:
        check_cluster_id(format_cluster_id)
        voters = None if initial_voters is None else initial_voters(config)
    else:
        for path in folders:
            if not vfs.exists(path):
                raise _not_formatted(path)
    for path in folders:
        vfs.make_directory(path)
    locks = tuple(lock_directory(vfs, path) for path in folders)
    if format_cluster_id is not None:
        request = FormatRequest(
            cluster_id=format_cluster_id,
            features=served_levels(METADATA_VERSION_DEFAULT),
            ignore_formatted=True,
            now_ms=wall_ms,
            initial_voters=voters,
        )
        format_directories(vfs, config, request, new_uuid)
    return _read(vfs, config, folders, locks)


def _read(vfs: Vfs, config: NodeConfig, folders: list[str], locks: tuple[Lock, ...]) -> Identity:
    """Read the identity from the meta.properties of all folders, which must agree."""
    cluster_ids: dict[str, str] = {}
    directory_ids: dict[str, DirectoryId] = {}
    for path in folders:
        found = read_meta_properties(vfs, path)
        if found is None:
            raise _not_formatted(path)
        where = join(path, META_PROPERTIES_NAME)
        if found.node_id != config.node_id:
            raise StartError(
                f"Stored node id {found.node_id} doesn't match previous node id {config.node_id} "
                f"in {where}"
            )
        if found.directory_id is None:
            raise StartError(f"{where} has no directory.id: format the folder again")
        if found.directory_id in directory_ids.values():
            raise StartError(f"{where} has the directory.id of another folder of this node")
        cluster_ids[found.cluster_id] = path
        directory_ids[path] = found.directory_id
    if len(cluster_ids) != 1:
        owners = ", ".join(f"{path} to {found}" for found, path in sorted(cluster_ids.items()))
        raise StartError(f"the folders belong to different clusters: {owners}")
    (cluster_id,) = cluster_ids
    return Identity(cluster_id=cluster_id, directory_ids=directory_ids, locks=locks)


def _not_formatted(path: str) -> StartError:
    return StartError(
        f"No readable {META_PROPERTIES_NAME} files found in {path}: "
        "format it with `kraftline storage format`"
    )
