"""Cordoned log directories of a broker: no new replicas are placed there (KIP-1066).

`cordoned.log.dirs` lists paths of `log.dirs`, or is `*` for all of them. Its value is that of the
broker's dynamic configs, else of the cluster's, else of server.properties; one that does not parse
is skipped.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from metadata.features import LEVEL_CORDONED_DIRECTORIES
from metadata.image import Image
from metadata.node_configs import NodeConfigs

CORDONED_LOG_DIRS: Final = "cordoned.log.dirs"
_ALL: Final = "*"


def cordoned_paths(
    image: Image, node_id: int, properties: Mapping[str, str], log_dirs: Iterable[str]
) -> frozenset[str] | None:
    """Return those of the log directories that are cordoned; None below metadata.version 30.

    Args:
        image: the newest image.
        node_id: of the broker.
        properties: its server.properties.
        log_dirs: paths of the log directories; others in the value are ignored.
    """
    if image.metadata_version < LEVEL_CORDONED_DIRECTORIES:
        return None
    value = NodeConfigs(image, node_id, properties).value(CORDONED_LOG_DIRS) or ""
    paths = {path.strip() for path in value.split(",")}
    return frozenset(log_dirs) if _ALL in paths else frozenset(paths.intersection(log_dirs))
