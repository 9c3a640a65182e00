"""Cordoned log directories of a broker: no new replicas are placed there (KIP-1066).

`cordoned.log.dirs` lists paths of `log.dirs`, or is `*` for all of them. Its value is that of the
broker's dynamic configs, else of the cluster's, else of server.properties; one that does not parse
is skipped.
"""

from collections.abc import Iterable, Mapping
from typing import Final
from uuid import UUID

from kernel.config import NodeConfig
from metadata.features import LEVEL_CORDONED_DIRECTORIES
from metadata.image import Image
from metadata.node_configs import NodeConfigs
from wire.types import DirectoryId

CORDONED_LOG_DIRS: Final = "cordoned.log.dirs"
_ALL: Final = "*"


def cordoned_paths(
    image: Image, config: NodeConfig, log_dirs: Iterable[str]
) -> frozenset[str] | None:
    """Return those of the log directories that are cordoned; None below metadata.version 30.

    Args:
        image: the newest image.
        config: settings of this broker.
        log_dirs: paths of the log directories; others in the value are ignored.
    """
    if image.metadata_version < LEVEL_CORDONED_DIRECTORIES:
        return None
    configs = NodeConfigs(image, config.node_id, dict(config.properties))
    value = configs.value(CORDONED_LOG_DIRS) or ""
    paths = {path.strip() for path in value.split(",")}
    return frozenset(log_dirs) if _ALL in paths else frozenset(paths.intersection(log_dirs))


def cordoned_directories(
    image: Image, config: NodeConfig, directory_ids: Mapping[str, DirectoryId]
) -> tuple[UUID, ...] | None:
    """Return the cordoned directory ids for heartbeats, sorted; None below metadata.version 30.

    Args:
        image: the newest image.
        config: settings of this broker.
        directory_ids: id of every log directory, by path.
    """
    paths = cordoned_paths(image, config, directory_ids)
    return None if paths is None else tuple(sorted(UUID(bytes=directory_ids[one]) for one in paths))
