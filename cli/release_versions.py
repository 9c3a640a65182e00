"""Which `metadata.version` a person may format with, and the features a new cluster starts with."""

from typing import Final

from cli.arguments import UsageError
from metadata.features import (
    ELR_VERSION,
    LEVEL_SCRAM,
    METADATA_VERSION_DEFAULT,
    METADATA_VERSION_MAX,
    METADATA_VERSION_MIN,
    metadata_version_level,
    metadata_version_name,
)
from metadata.image import METADATA_VERSION

FIRST_BOOTSTRAP_LEVEL: Final = 4
LEVEL_ELR_DEFAULT: Final = 26
"""4.1-IV0: new clusters have eligible leader replicas from here on."""


def level_of(name: str | None, *, with_scram: bool = False) -> int:
    """Level of a release: `3.9-IV0`, or `3.9` for the last one of 3.9; None for the default.

    Raises:
        UsageError: no such release, or one that a node of this software could not start with.
    """
    level = METADATA_VERSION_DEFAULT if name is None else metadata_version_level(name)
    if level is None:
        raise UsageError(f"Unknown metadata.version '{name}'")
    if level < FIRST_BOOTSTRAP_LEVEL:
        raise UsageError(
            "Bootstrap metadata.version before 3.3-IV0 are not supported. "
            "Can't load metadata from format command"
        )
    if with_scram and level < LEVEL_SCRAM:
        raise UsageError("SCRAM is only supported in metadata.version 3.5-IV2 or later.")
    if not METADATA_VERSION_MIN <= level <= METADATA_VERSION_MAX:
        raise UsageError(
            f"metadata.version {metadata_version_name(level)} is not supported: a node of this "
            f"software runs {metadata_version_name(METADATA_VERSION_MIN)} to "
            f"{metadata_version_name(METADATA_VERSION_MAX)}"
        )
    return level


def features_at(level: int) -> dict[str, int]:
    """Finalized features of a new cluster at this level: what our nodes support, no more."""
    elr = {ELR_VERSION: 1} if level >= LEVEL_ELR_DEFAULT else {}
    return {METADATA_VERSION: level, **elr}
