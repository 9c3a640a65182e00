"""Feature levels that a new cluster can be formatted with."""

from collections.abc import Mapping
from typing import Final

from cli.arguments import UsageError
from metadata.features import (
    KRAFT_VERSION,
    LEVEL_SCRAM,
    METADATA_VERSION_DEFAULT,
    METADATA_VERSION_MAX,
    METADATA_VERSION_MIN,
    metadata_version_level,
    metadata_version_name,
    missing_dependency,
    release_levels,
    served_levels,
)
from metadata.image import METADATA_VERSION

FIRST_BOOTSTRAP_LEVEL: Final = 4
_VOTER_FLAGS: Final = "--standalone, --initial-controllers, or --no-initial-controllers"


def new_cluster_levels(
    release: str | None,
    wanted: Mapping[str, int],
    *,
    with_scram: bool = False,
    is_dynamic: bool = False,
) -> dict[str, int]:
    """Feature -> initial level of a new cluster, zeros included.

    A release, or metadata.version among the wanted levels, gives the levels of Kafka's brokers of
    that release. Without one the levels are those that brokers of this software serve. The quorum's
    own, kraft.version, is 1 where `is_dynamic`: the voters are not those of the configuration.

    Raises:
        UsageError: no such release, feature or level, or one that a node could not start with.
    """
    if release is not None and METADATA_VERSION in wanted:
        raise UsageError(
            f"Use --release-version instead of --feature {METADATA_VERSION}=X to avoid ambiguity."
        )
    level = METADATA_VERSION_DEFAULT
    if release is not None:
        level = _release_level(release)
    elif METADATA_VERSION in wanted:
        level = wanted[METADATA_VERSION]
    _check_bootstrap(level, with_scram=with_scram)
    is_named = release is not None or METADATA_VERSION in wanted
    levels = release_levels(level) if is_named else served_levels(level)
    levels[KRAFT_VERSION] = int(is_dynamic)
    levels |= wanted
    _check_quorum(levels[KRAFT_VERSION], is_dynamic=is_dynamic)
    for name in sorted({*wanted, KRAFT_VERSION} - {METADATA_VERSION}):
        missing = missing_dependency(name, levels[name], levels)
        if missing is not None:
            raise UsageError(missing)
    return levels


def _check_quorum(level: int, *, is_dynamic: bool) -> None:
    """Refuse a wanted kraft.version that does not fit the kind of voters."""
    if level == 0 and is_dynamic:
        raise UsageError(
            "Cannot set kraft.version to 0 if controller.quorum.voters is empty and one of the "
            f"flags {_VOTER_FLAGS} is used. For dynamic controllers support, try removing the "
            "--feature flag for kraft.version."
        )
    if level > 0 and not is_dynamic:
        raise UsageError(
            f"Cannot set kraft.version to {level} unless controller.quorum.voters is empty and one "
            f"of the flags {_VOTER_FLAGS} is used. For dynamic controllers support, try using one "
            "of --standalone, --initial-controllers, or --no-initial-controllers and removing "
            "controller.quorum.voters."
        )


def _release_level(name: str) -> int:
    """Level of a release: `3.9-IV0`, or `3.9` for the last one of 3.9."""
    level = metadata_version_level(name)
    if level is None:
        raise UsageError(f"Unknown metadata.version '{name}'")
    return level


def _check_bootstrap(level: int, *, with_scram: bool) -> None:
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
