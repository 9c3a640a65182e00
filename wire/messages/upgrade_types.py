"""Upgrade types of an UpdateFeatures request (apache/kafka: FeatureUpdate.UpgradeType)."""

from typing import Final

UPGRADE: Final = 1
SAFE_DOWNGRADE: Final = 2
UNSAFE_DOWNGRADE: Final = 3
