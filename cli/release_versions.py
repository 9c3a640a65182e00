"""Names of `metadata.version` levels, and which features a cluster of that release starts with."""

from typing import Final

from cli.arguments import UsageError

# apache/kafka: server-common/.../MetadataVersion.java; level = position + 1
NAMES: Final = (
    "3.0-IV1",
    "3.1-IV0",
    "3.2-IV0",
    "3.3-IV0",
    "3.3-IV1",
    "3.3-IV2",
    "3.3-IV3",
    "3.4-IV0",
    "3.5-IV0",
    "3.5-IV1",
    "3.5-IV2",
    "3.6-IV0",
    "3.6-IV1",
    "3.6-IV2",
    "3.7-IV0",
    "3.7-IV1",
    "3.7-IV2",
    "3.7-IV3",
    "3.7-IV4",
    "3.8-IV0",
    "3.9-IV0",
    "4.0-IV0",
    "4.0-IV1",
    "4.0-IV2",
    "4.0-IV3",
    "4.1-IV0",
    "4.1-IV1",
    "4.2-IV0",
    "4.2-IV1",
    "4.3-IV0",
)
DEFAULT_LEVEL: Final = 21
FIRST_BOOTSTRAP_LEVEL: Final = 4
LAST_LEVEL_WITHOUT_FEATURES: Final = 21
FIRST_SCRAM_LEVEL: Final = 11
NEWEST_LEVEL: Final = len(NAMES)
NEWEST_FEATURES: Final = {
    "eligible.leader.replicas.version": 1,
    "group.version": 1,
    "share.version": 1,
    "streams.version": 1,
    "transaction.version": 2,
}
assert NAMES[DEFAULT_LEVEL - 1] == "3.9-IV0"
assert NAMES[NEWEST_LEVEL - 1] == "4.3-IV0"


def level_of(name: str | None) -> int:
    """Level of a release: `3.9-IV0`, or `3.9` for the last one of 3.9; None for the default.

    Raises:
        UsageError: no such release, or one that cannot be formatted.
    """
    if name is None:
        return DEFAULT_LEVEL
    matching = [
        level
        for level, known in enumerate(NAMES, start=1)
        if known == name or known.partition("-")[0] == name
    ]
    if not matching:
        raise UsageError(f"Unknown metadata.version '{name}'")
    level = matching[-1]
    if level < FIRST_BOOTSTRAP_LEVEL:
        raise UsageError(
            "Bootstrap metadata.version before 3.3-IV0 are not supported. "
            "Can't load metadata from format command"
        )
    if LAST_LEVEL_WITHOUT_FEATURES < level < NEWEST_LEVEL:
        raise UsageError(f"metadata.version {NAMES[level - 1]} is not supported yet at format")
    return level


def features_at(level: int) -> dict[str, int]:
    """Finalized features of a new cluster at this level, in Kafka's order."""
    features = {"metadata.version": level}
    return features if level <= LAST_LEVEL_WITHOUT_FEATURES else {**features, **NEWEST_FEATURES}
