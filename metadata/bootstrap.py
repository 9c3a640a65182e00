"""The first records of a new cluster, those of bootstrap.checkpoint.

The format command writes them, the first active controller of a cluster appends them to the log as
one batch (inside a metadata transaction from level 13 on). (apache/kafka: BootstrapMetadata.java,
ActivationRecordsGenerator.java)
"""

from collections.abc import Mapping, Sequence
from typing import Final

from metadata.features import (
    METADATA_VERSION_DEFAULT,
    METADATA_VERSION_NAMES,
)
from metadata.image import METADATA_VERSION
from metadata.records import FeatureLevelRecord
from metadata.schema import MetadataRecordError, Record

# Below 3.3-IV0 there is no record for the level itself.
BOOTSTRAP_LEVEL_MIN: Final = 4
TRANSACTION_NAME: Final = "Bootstrap records"
"""Name of the metadata transaction in which they are appended to the log."""


def bootstrap_records(
    level: int = METADATA_VERSION_DEFAULT,
    features: Mapping[str, int] | None = None,
    more: Sequence[Record] = (),
) -> list[Record]:
    """The content of bootstrap.checkpoint: metadata.version first, then features by name.

    Args:
        level: metadata.version.
        features: other features; level 0 is left out, kraft.version never goes here.
        more: SCRAM credentials given at format.
    """
    assert level in METADATA_VERSION_NAMES, f"{level=}"
    records: list[Record] = [FeatureLevelRecord(name=METADATA_VERSION, feature_level=level)]
    for name, feature_level in sorted((features or {}).items()):
        if feature_level > 0 and name not in (METADATA_VERSION, "kraft.version"):
            records.append(FeatureLevelRecord(name=name, feature_level=feature_level))
    return [*records, *more]


def bootstrap_level(records: Sequence[Record]) -> int:
    """The metadata.version of bootstrap records; the last one counts.

    Raises:
        MetadataRecordError: there is none, or it is below 3.3-IV0.
    """
    levels = [
        record.feature_level
        for record in records
        if isinstance(record, FeatureLevelRecord) and record.name == METADATA_VERSION
    ]
    if not levels:
        raise MetadataRecordError("no FeatureLevelRecord for metadata.version in bootstrap records")
    if levels[-1] < BOOTSTRAP_LEVEL_MIN:
        raise MetadataRecordError("bootstrap metadata.version before 3.3-IV0 is not supported")
    return levels[-1]
