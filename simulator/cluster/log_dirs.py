"""Ids of the log directories of a machine."""

from collections.abc import Sequence
from typing import Final

from wire.types import DirectoryId

SECOND: Final = 200
"""First byte of the id of the second directory."""


def directory_ids(paths: Sequence[str], first: DirectoryId) -> dict[str, DirectoryId]:
    """Id of every log directory, by path; the others have the first one's but for one byte."""
    more = {
        path: DirectoryId(bytes([number]) + first[1:])
        for number, path in enumerate(paths[1:], SECOND)
    }
    return {paths[0]: first} | more
