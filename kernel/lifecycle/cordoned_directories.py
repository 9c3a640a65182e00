"""Cordoned log directories in the heartbeats of a broker (`metadata/cordoned_directories.py`)."""

from collections.abc import Mapping
from uuid import UUID

from kernel.config import NodeConfig
from metadata.cordoned_directories import cordoned_paths
from metadata.image import Image
from wire.types import DirectoryId


def cordoned_directories(
    image: Image, config: NodeConfig, directory_ids: Mapping[str, DirectoryId]
) -> tuple[UUID, ...] | None:
    """Return the cordoned directory ids for heartbeats, sorted; None below metadata.version 30.

    Args:
        image: the newest image.
        config: settings of this broker.
        directory_ids: id of every log directory, by path.
    """
    paths = cordoned_paths(image, config.node_id, dict(config.properties), directory_ids)
    return None if paths is None else tuple(sorted(UUID(bytes=directory_ids[one]) for one in paths))
