"""Comparison of finalized feature levels with those that a registering broker supports.

Source: apache/kafka: metadata/.../controller/ClusterControlManager.java
(processRegistrationFeature).
"""

from collections.abc import Iterable
from typing import Final

from metadata.image import METADATA_VERSION, Image
from metadata.records import SupportedFeature
from wire.errors import ApiError, ErrorCode

_OLDEST_METADATA_VERSION: Final = 1


def supported_features(
    features: Iterable[tuple[str, int, int]],
) -> tuple[SupportedFeature, ...]:
    """The features that a broker supports; a missing metadata.version range counts as 1..1.

    Args:
        features: (name, lowest level, highest level) in the order of the request.
    """
    ranges = tuple(
        SupportedFeature(name=name, min_supported_version=low, max_supported_version=high)
        for name, low, high in features
    )
    if any(feature.name == METADATA_VERSION for feature in ranges):
        return ranges
    oldest = SupportedFeature(
        name=METADATA_VERSION,
        min_supported_version=_OLDEST_METADATA_VERSION,
        max_supported_version=_OLDEST_METADATA_VERSION,
    )
    return (*ranges, oldest)


def unsupported_feature(image: Image, features: Iterable[SupportedFeature]) -> ApiError | None:
    """UNSUPPORTED_VERSION with the first finalized feature that the broker lacks, or None.

    A finalized feature that is missing in the request counts as supported at level 0 only.
    """
    ranges = {f.name: (f.min_supported_version, f.max_supported_version) for f in features}
    finalized = {METADATA_VERSION: image.metadata_version, **dict(image.features.items())}
    for name in sorted(finalized):
        level = finalized[name]
        low, high = ranges.get(name, (0, 0))
        if level > 0 and not low <= level <= high:
            return ApiError(
                ErrorCode.unsupported_version,
                f"Unable to register because the broker does not support finalized version {level} "
                f"of {name}. The broker wants a version between {low} and {high}, inclusive.",
            )
    return None
