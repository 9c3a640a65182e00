"""Features: names of metadata.version levels, what this software supports, record versions.

metadata.version decides which version of a record may be written; a reader takes every version.
(apache/kafka: server-common/.../MetadataVersion.java, Kafka 4.3; docs: KIP-584, KIP-778)
"""

from bisect import bisect_right
from collections.abc import Mapping
from typing import Final

from metadata.image import METADATA_VERSION
from metadata.records import (
    BrokerRegistrationChangeRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
)
from metadata.schema import Record, UnknownRecord, fields_of

KRAFT_VERSION: Final = "kraft.version"
TRANSACTION_VERSION: Final = "transaction.version"
GROUP_VERSION: Final = "group.version"
ELR_VERSION: Final = "eligible.leader.replicas.version"
SHARE_VERSION: Final = "share.version"
STREAMS_VERSION: Final = "streams.version"

# Level -> name; a level is the index + 1.
_NAMES: Final = (
    *("3.0-IV1", "3.1-IV0", "3.2-IV0", "3.3-IV0", "3.3-IV1", "3.3-IV2", "3.3-IV3", "3.4-IV0"),
    *("3.5-IV0", "3.5-IV1", "3.5-IV2", "3.6-IV0", "3.6-IV1", "3.6-IV2", "3.7-IV0", "3.7-IV1"),
    *("3.7-IV2", "3.7-IV3", "3.7-IV4", "3.8-IV0", "3.9-IV0", "4.0-IV0", "4.0-IV1", "4.0-IV2"),
    *("4.0-IV3", "4.1-IV0", "4.1-IV1", "4.2-IV0", "4.2-IV1", "4.3-IV0"),
)
METADATA_VERSION_NAMES: Final[dict[int, str]] = dict(enumerate(_NAMES, start=1))
# Levels that change the metadata format: a downgrade across one of them is refused.
FORMAT_CHANGE_LEVELS: Final = frozenset(
    {1, 3, 5, 6, 7, 8, 11, 13, 14, 15, 17, 23, 30},
)
METADATA_VERSION_MIN: Final = 7  # 3.3-IV3, as Kafka 4.x
METADATA_VERSION_MAX: Final = 30  # 4.3-IV0, as Kafka 4.3
METADATA_VERSION_DEFAULT: Final = METADATA_VERSION_MAX
"""The metadata.version of a new cluster."""
assert len(_NAMES) >= METADATA_VERSION_MAX

# First level at which something may be used or written.
LEVEL_RECOVERY_STATE: Final = 3
LEVEL_NO_OP: Final = 5
LEVEL_REGISTRATION_CHANGE: Final = 6  # replaces FenceBrokerRecord and UnfenceBrokerRecord
LEVEL_CONTROLLED_SHUTDOWN: Final = 7
LEVEL_ZK_MIGRATION: Final = 8
LEVEL_SCRAM: Final = 11
LEVEL_NO_EPOCH_BUMP_ON_SHRINK: Final = 12
LEVEL_TRANSACTIONS: Final = 13
LEVEL_DELEGATION_TOKENS: Final = 14
LEVEL_CONTROLLER_REGISTRATION: Final = 15
LEVEL_DIRECTORIES: Final = 17
LEVEL_ELR: Final = 23
LEVEL_CORDONED_DIRECTORIES: Final = 30

# Feature -> metadata.version with which each of its levels 1, 2, ... starts in a new cluster, in
# Kafka's order.
LEVEL_STARTS: Final[Mapping[str, tuple[int, ...]]] = {
    KRAFT_VERSION: (21,),
    TRANSACTION_VERSION: (24, 24),
    GROUP_VERSION: (22,),
    ELR_VERSION: (26,),
    SHARE_VERSION: (28,),
    STREAMS_VERSION: (29,),
}
DEPENDENCIES: Final[Mapping[tuple[str, int], Mapping[str, int]]] = {
    (ELR_VERSION, 1): {METADATA_VERSION: LEVEL_ELR},
}
"""By feature and level: the features and levels that must be finalized for it."""

# Inclusive ranges, as registrations announce them.
CONTROLLER_FEATURES: Final[Mapping[str, tuple[int, int]]] = {
    METADATA_VERSION: (METADATA_VERSION_MIN, METADATA_VERSION_MAX),
    **{name: (0, len(starts)) for name, starts in LEVEL_STARTS.items()},
    KRAFT_VERSION: (0, 1),
}
"""Levels that a controller finalizes for the brokers of a cluster, of whatever software."""
BROKER_FEATURES: Final[Mapping[str, tuple[int, int]]] = {
    **CONTROLLER_FEATURES,
    **dict.fromkeys((SHARE_VERSION, STREAMS_VERSION), (0, 0)),
}
"""Levels that a broker of this software supports."""


def supported_features(*, is_controller: bool) -> Mapping[str, tuple[int, int]]:
    """Inclusive range of levels per feature that a node of this role registers."""
    return CONTROLLER_FEATURES if is_controller else BROKER_FEATURES


def release_levels(level: int) -> dict[str, int]:
    """Feature -> level of a new cluster at a metadata.version, in Kafka's order, zeros too."""
    starts = LEVEL_STARTS.items()
    return {METADATA_VERSION: level, **{n: sum(s <= level for s in of) for n, of in starts}}


def served_levels(level: int) -> dict[str, int]:
    """The levels of a release, limited to those that brokers of this software support."""
    return {
        name: min(wanted, BROKER_FEATURES[name][1])
        for name, wanted in release_levels(level).items()
    }


def missing_dependency(name: str, level: int, levels: Mapping[str, int]) -> str | None:
    """Kafka's error text if a level depends on another that `levels` lack; None if not.

    Args:
        name: of the feature; metadata.version has no dependencies.
        level: to be finalized.
        levels: by feature, as they would be with this one; metadata.version among them.
    """
    if level >= 1 and levels[METADATA_VERSION] < METADATA_VERSION_MIN:
        oldest = metadata_version_name(METADATA_VERSION_MIN)
        return (
            f"{name} could not be set to {level} because it depends on metadata.version="
            f"{METADATA_VERSION_MIN} ({oldest})"
        )
    for needed, needed_level in DEPENDENCIES.get((name, level), {}).items():
        if levels.get(needed, 0) < needed_level:
            return (
                f"{name} could not be set to {level} because it depends on {needed} level "
                f"{needed_level}"
            )
    return None


def metadata_version_name(level: int) -> str:
    """The name of a level, `3.9-IV0` for 21; of an unknown level its number as text."""
    return METADATA_VERSION_NAMES.get(level, str(level))


def metadata_version_level(name: str) -> int | None:
    """The level of `3.9-IV0`, of `3.9` (its newest) or of a level number; None if unknown."""
    for level, known in reversed(METADATA_VERSION_NAMES.items()):
        release = known.partition("-")[0]
        is_patch_release = name.startswith(release + ".") and name.count(".") == 2
        if name in (known, release) or is_patch_release:
            return level
    return next((level for level in METADATA_VERSION_NAMES if name == str(level)), None)


def unsupported(
    finalized: Mapping[str, int],
    supported: Mapping[str, tuple[int, int]] = CONTROLLER_FEATURES,
) -> list[str]:
    """One line per finalized feature that is not supported, sorted by name.

    A FeatureLevelRecord named kraft.version is tolerated: Kafka 3.9 writes one by mistake; the
    effective level is that of the control record.
    """
    lines = []
    for name, level in sorted(finalized.items()):
        low, high = supported.get(name, (0, 0))
        if name != KRAFT_VERSION and not low <= level <= high:
            lines.append(f"{name} is finalized at {level}, supported is {low} to {high}")
    return lines


def record_version(record: Record, level: int) -> int:
    """The version in which a controller writes the record at a metadata.version level.

    A registration or partition uses the newest version that the level allows, a change of a
    registration the oldest that can carry it, everything else has one version.
    """
    steps = _VERSION_STEPS.get(type(record))
    if steps is not None:
        return bisect_right(steps, level)
    if isinstance(record, UnknownRecord):
        return record.version
    if isinstance(record, BrokerRegistrationChangeRecord):
        return max(
            (spec.since for spec in fields_of(type(record)) if _is_set(record, spec.name)),
            default=0,
        )
    return 0


def _is_set(record: BrokerRegistrationChangeRecord, name: str) -> bool:
    return bool(getattr(record, name) != _UNSET_CHANGE[name])


# The levels at which versions 1, 2, 3, ... of a record begin, ascending.
_VERSION_STEPS: Final[dict[type[Record], tuple[int, ...]]] = {
    RegisterBrokerRecord: (
        LEVEL_CONTROLLED_SHUTDOWN,
        LEVEL_ZK_MIGRATION,
        LEVEL_DIRECTORIES,
        LEVEL_CORDONED_DIRECTORIES,
    ),
    PartitionRecord: (LEVEL_DIRECTORIES, LEVEL_ELR),
    PartitionChangeRecord: (LEVEL_DIRECTORIES, LEVEL_ELR),
}
_UNSET_CHANGE: Final = {
    spec.name: spec.default for spec in fields_of(BrokerRegistrationChangeRecord)
}
