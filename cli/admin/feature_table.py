"""Features of Kafka 4.3: the levels that a release starts with, the requirements of a level.

Source: apache/kafka: server-common/.../Feature.java and the enums it lists.
"""

from cli.arguments import UsageError
from cli.connect import json_line
from metadata.features import (
    DEPENDENCIES,
    LEVEL_STARTS,
    METADATA_VERSION_MIN,
    METADATA_VERSION_NAMES,
    metadata_version_level,
    metadata_version_name,
    release_levels,
)
from metadata.image import METADATA_VERSION


def level_named(name: str) -> int:
    """The metadata.version level of a release.

    Raises:
        UsageError: no such release, or one older than 3.3-IV3.
    """
    level = metadata_version_level(name)
    if level is None or level < METADATA_VERSION_MIN:
        known = ", ".join(
            known
            for level, known in METADATA_VERSION_NAMES.items()
            if level >= METADATA_VERSION_MIN
        )
        raise UsageError(
            f"Unknown metadata.version '{name[:80]}'. Supported metadata.version are: {known}"
        )
    return level


def version_mapping(release: str | None, *, as_json: bool) -> str:
    """The output of `version-mapping`.

    Raises:
        UsageError: no such release.
    """
    level = max(METADATA_VERSION_NAMES) if release is None else level_named(release)
    levels = release_levels(level)
    if as_json:
        return json_line({"release": metadata_version_name(level), "features": levels})
    shown = release or metadata_version_name(level)
    lines = [f"{METADATA_VERSION}={level} ({shown})\n"]
    return "".join(lines + [f"{name}={levels[name]}\n" for name in LEVEL_STARTS])


def feature_dependencies(features: dict[str, int], *, as_json: bool) -> str:
    """The output of `feature-dependencies`.

    Raises:
        UsageError: an unknown feature or level.
    """
    found = {}
    for name, level in features.items():
        check_level(name, level)
        found[name] = DEPENDENCIES.get((name, level), {})
    if as_json:
        return json_line({name: {"level": features[name], "requires": needs}
                          for name, needs in found.items()})  # fmt: skip
    lines = []
    for name, needs in found.items():
        shown = f"{name}={_level(name, features[name])}"
        lines.append(f"{shown} requires:\n" if needs else f"{shown} has no dependencies.\n")
        lines.extend(f"    {other}={_level(other, level)}\n" for other, level in needs.items())
    return "".join(lines)


def check_level(name: str, level: int) -> None:
    """Refuse a feature or level that Kafka 4.3 does not have.

    Raises:
        UsageError: unknown.
    """
    if name == METADATA_VERSION:
        if level not in METADATA_VERSION_NAMES or level < METADATA_VERSION_MIN:
            raise UsageError(f"No MetadataVersion with feature level {level}.")
    elif name not in LEVEL_STARTS:
        raise UsageError(f"Unknown feature: {name[:80]}")
    elif not 0 <= level <= len(LEVEL_STARTS[name]):
        raise UsageError(f"No feature:{name} with feature level {level}")


def _level(name: str, level: int) -> str:
    if name != METADATA_VERSION:
        return str(level)
    return f"{level} ({metadata_version_name(level)})"


def parse_levels(entries: list[str]) -> dict[str, int]:
    """Feature -> level from `feature=level` entries.

    Raises:
        UsageError: an entry has another form, or a feature is named twice.
    """
    found: dict[str, int] = {}
    for entry in entries:
        name, separator, level = entry.partition("=")
        shown = f"Can't parse feature=level string {entry[:80]}: "
        if not separator:
            raise UsageError(f"{shown}equals sign not found.")
        digits = level.strip().removeprefix("-")
        is_number = digits.isascii() and digits.isdigit() and len(digits) < 6
        if not is_number or not -32768 <= int(level) <= 32767:
            raise UsageError(f"{shown}unable to parse {level.strip()[:80]} as a short.")
        if name.strip() in found:
            raise UsageError(f"Feature {name.strip()} was specified more than once.")
        found[name.strip()] = int(level)
    return found
