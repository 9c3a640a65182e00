"""The first records of a new active controller.

An empty log gets the bootstrap records, from metadata.version 13 inside a metadata transaction: a
half-written bootstrap is then aborted and redone by the next leader. A transaction that the
previous leader did not end is aborted.
Source: apache/kafka: metadata/.../controller/ActivationRecordsGenerator.java (4.3: no
ZkMigrationStateRecord any more).
"""

from metadata.bootstrap import TRANSACTION_NAME, bootstrap_level
from metadata.features import LEVEL_TRANSACTIONS
from metadata.image import METADATA_VERSION, Image
from metadata.records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    Record,
)
from metadata.schema import MetadataRecordError
from quorum_controller.result import Draft


class ActivationError(Exception):
    """The log is in a state in which no controller of this version may become active."""


def write_activation_records(
    draft: Draft, bootstrap_records: tuple[Record, ...], *, has_open_transaction: bool
) -> None:
    """Emit the records that the log needs before the first request.

    Args:
        draft: over the image before the open transaction, if there is one.
        bootstrap_records: data records of bootstrap.checkpoint, metadata.version among them.
        has_open_transaction: the log ends inside a metadata transaction.

    Raises:
        ActivationError: an open transaction below metadata.version 13, or bootstrap records that
            set no metadata.version, or one that is too old.
    """
    is_empty = is_log_empty(draft.image)
    level = _bootstrap_level(bootstrap_records) if is_empty else draft.image.metadata_version
    if has_open_transaction:
        if level < LEVEL_TRANSACTIONS:
            raise ActivationError(
                f"the log ends inside a metadata transaction, which {METADATA_VERSION}={level} "
                "cannot abort"
            )
        draft.emit_marker(AbortTransactionRecord(reason="Controller failover"))
    if not is_empty:
        return
    if level >= LEVEL_TRANSACTIONS:
        draft.emit_marker(BeginTransactionRecord(name=TRANSACTION_NAME))
    for record in bootstrap_records:
        draft.emit(record)
    if level >= LEVEL_TRANSACTIONS:
        draft.emit_marker(EndTransactionRecord())


def is_log_empty(image: Image) -> bool:
    """True if no data record was ever applied: every real log starts with metadata.version."""
    return METADATA_VERSION not in image.features and not image.brokers and not image.topics


def _bootstrap_level(bootstrap_records: tuple[Record, ...]) -> int:
    try:
        return bootstrap_level(bootstrap_records)
    except MetadataRecordError as error:
        raise ActivationError(str(error)) from error
