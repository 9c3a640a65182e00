"""Text that explains a refused broker registration to the operator.

The response to a registration has only a code. For UNSUPPORTED_VERSION the finalized levels and the
controller's ranges come from ApiVersions, which has kraft.version too.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from metadata.features import BROKER_FEATURES

if TYPE_CHECKING:
    from kio.schema.api_versions.v4.response import ApiVersionsResponse

Range = tuple[int, int]


def refusal_text(finalized: Mapping[str, int], controller: Mapping[str, Range]) -> str:
    """Return a text naming the finalized features that this broker does not support.

    Args:
        finalized: level by feature.
        controller: inclusive range of levels by feature that the active controller supports.
    """
    parts = []
    for name, level in sorted(finalized.items()):
        low, high = BROKER_FEATURES.get(name, (0, 0))
        if not low <= level <= high:
            other = controller.get(name)
            theirs = "" if other is None else f", the controller {other[0]} to {other[1]}"
            parts.append(
                f"{name} is finalized at {level}: this broker supports {low} to {high}{theirs}"
            )
    return "; ".join(parts) or "the controller answers unsupported_version"


def finalized_levels(answer: "ApiVersionsResponse") -> dict[str, int]:
    """Return the finalized level by feature of an ApiVersionsResponse."""
    return {str(row.name): int(row.max_version_level) for row in answer.finalized_features}


def supported_ranges(answer: "ApiVersionsResponse") -> dict[str, Range]:
    """Return the inclusive range by feature of an ApiVersionsResponse."""
    rows = answer.supported_features
    return {str(row.name): (int(row.min_version), int(row.max_version)) for row in rows}
