"""The only meaning of a metadata record: image + record -> image.

Pure, and total for records that a controller can emit. A record that contradicts the image (an
unknown broker, a second topic of a name, an epoch that does not match) raises IllegalRecordError:
the log and this replica no longer agree, which is fatal for the node.

Transaction markers do not change the image. BeginTransaction and EndTransaction pass through; the
image to return to on an abort is known only to the owner of the images (`metadata/loader.py` and
the controller), so AbortTransaction is illegal here.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final

from metadata.apply_cluster import CLUSTER_RECORDS
from metadata.apply_settings import SETTINGS_RECORDS
from metadata.apply_topics import TOPIC_RECORDS
from metadata.delta import MetadataDelta
from metadata.errors import IllegalRecordError
from metadata.image import Image
from metadata.records import (
    BeginTransactionRecord,
    EndTransactionRecord,
    NoOpRecord,
    Record,
)
from wire.types import Offset

__all__ = ["IllegalRecordError", "apply", "apply_all"]

ApplyFunction = Callable[[Image, Any, Offset, MetadataDelta], Image]


def apply(image: Image, record: Record, offset: Offset, delta: MetadataDelta) -> Image:
    """The image after one record; the ids that the record touched are added to the delta.

    The provenance is unchanged: the caller sets it once per batch.

    Args:
        image: the image before the record.
        record: any metadata record.
        offset: the record's own offset; stored with a broker's registration.
        delta: modified in place.

    Raises:
        IllegalRecordError: the record contradicts the image or has no meaning here.
    """
    function = _FUNCTIONS.get(type(record))
    if function is None:
        raise IllegalRecordError(record, "it has no meaning for the image")
    return function(image, record, offset, delta)


def apply_all(
    image: Image, records: Iterable[Record], base_offset: Offset, delta: MetadataDelta
) -> Image:
    """The image after records at consecutive offsets from `base_offset`.

    Raises:
        IllegalRecordError: as `apply`.
    """
    for index, record in enumerate(records):
        image = apply(image, record, Offset(base_offset + index), delta)
    return image


def _unchanged(image: Image, record: Record, offset: Offset, delta: MetadataDelta) -> Image:
    del record, offset, delta
    return image


_FUNCTIONS: Final[dict[type[Record], ApplyFunction]] = {
    **CLUSTER_RECORDS,
    **TOPIC_RECORDS,
    **SETTINGS_RECORDS,
    NoOpRecord: _unchanged,
    BeginTransactionRecord: _unchanged,
    EndTransactionRecord: _unchanged,
}
