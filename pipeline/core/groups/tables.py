"""Columns of the tables about groups and transactions, and Arrow tables of rows.

Times are microseconds of UTC, made of Kafka's ms; a time or number that is not known is null.
`log_partition`, `log_offset` and `log_ts` name the coordinator's record that a row comes from.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

import pyarrow as pa

from pipeline.core.records.schema import TIMESTAMP

PARTITIONS: Final = pa.list_(
    pa.struct(
        [("topic", pa.string()), ("topic_id", pa.string()), ("partitions", pa.list_(pa.int32()))]
    )
)
COMMITS: Final = pa.schema(
    [
        ("group_id", pa.string()), ("topic", pa.string()), ("partition", pa.int32()),
        ("committed_offset", pa.int64()), ("leader_epoch", pa.int32()), ("metadata", pa.string()),
        ("commit_ts", TIMESTAMP), ("expire_ts", TIMESTAMP), ("topic_id", pa.string()),
        ("outcome", pa.string()), ("producer_id", pa.int64()), ("log_partition", pa.int32()),
        ("log_offset", pa.int64()), ("log_ts", TIMESTAMP), ("decided_offset", pa.int64()),
        ("decided_ts", TIMESTAMP),
    ]
)  # fmt: skip
LAG: Final = pa.schema(
    [
        ("group_id", pa.string()), ("topic", pa.string()), ("partition", pa.int32()),
        ("ts", TIMESTAMP), ("point", pa.string()), ("committed_offset", pa.int64()),
        ("end_offset_min", pa.int64()), ("end_offset_max", pa.int64()), ("lag_min", pa.int64()),
        ("lag_max", pa.int64()), ("is_exact", pa.bool_()),
    ]
)  # fmt: skip
GROUPS: Final = pa.schema(
    [
        ("group_id", pa.string()), ("protocol", pa.string()), ("protocol_type", pa.string()),
        ("state", pa.string()), ("epoch", pa.int32()), ("members", pa.int32()),
        ("committed_partitions", pa.int32()), ("last_commit_ts", TIMESTAMP),
        ("last_ts", TIMESTAMP), ("log_partition", pa.int32()), ("log_offset", pa.int64()),
    ]
)  # fmt: skip
MEMBERS: Final = pa.schema(
    [
        ("group_id", pa.string()), ("member_id", pa.string()), ("protocol", pa.string()),
        ("instance_id", pa.string()), ("client_id", pa.string()), ("client_host", pa.string()),
        ("rack_id", pa.string()), ("subscribed_topics", pa.list_(pa.string())),
        ("subscribed_regex", pa.string()), ("assignor", pa.string()), ("epoch", pa.int32()),
        ("state", pa.string()), ("assigned", PARTITIONS), ("revoking", PARTITIONS),
        ("target", PARTITIONS), ("log_partition", pa.int32()),
        ("valid_from_offset", pa.int64()), ("valid_from_ts", TIMESTAMP),
        ("valid_to_offset", pa.int64()), ("valid_to_ts", TIMESTAMP),
    ]
)  # fmt: skip
REBALANCES: Final = pa.schema(
    [
        ("group_id", pa.string()), ("protocol", pa.string()), ("epoch", pa.int32()),
        ("ts", TIMESTAMP), ("members", pa.int32()), ("joined", pa.list_(pa.string())),
        ("departed", pa.list_(pa.string())), ("assignor", pa.string()), ("leader", pa.string()),
        ("log_partition", pa.int32()), ("log_offset", pa.int64()),
        ("settled_offset", pa.int64()), ("settled_ts", TIMESTAMP),
    ]
)  # fmt: skip
TRANSACTIONS: Final = pa.schema(
    [
        ("transactional_id", pa.string()), ("producer_id", pa.int64()),
        ("producer_epoch", pa.int32()), ("state", pa.string()), ("timeout_ms", pa.int64()),
        ("start_ts", TIMESTAMP), ("prepared_ts", TIMESTAMP), ("completed_ts", TIMESTAMP),
        ("last_update_ts", TIMESTAMP), ("partitions", PARTITIONS), ("log_partition", pa.int32()),
        ("first_log_offset", pa.int64()), ("last_log_offset", pa.int64()),
    ]
)  # fmt: skip
OPEN_TRANSACTIONS: Final = pa.schema(
    [
        ("source", pa.string()), ("transactional_id", pa.string()), ("producer_id", pa.int64()),
        ("producer_epoch", pa.int32()), ("topic", pa.string()), ("partition", pa.int32()),
        ("first_offset", pa.int64()), ("state", pa.string()), ("verdict", pa.string()),
        ("start_ts", TIMESTAMP), ("last_ts", TIMESTAMP), ("open_ms", pa.int64()),
        ("timeout_ms", pa.int64()),
    ]
)  # fmt: skip
_MS_MAX: Final = (1 << 63) // 1000 - 1  # a later time does not fit microseconds
Row = dict[str, Any]


def table_of(rows: Sequence[Row], schema: pa.Schema) -> pa.Table:
    """A table of rows that have each column by its name, times in ms."""
    return pa.Table.from_arrays(
        [_column((row[field.name] for row in rows), field.type) for field in schema],
        schema=schema,
    )


def _column(values: Iterable[Any], type_: pa.DataType) -> pa.Array:
    if type_ == TIMESTAMP:
        in_us = [None if one is None or abs(one) > _MS_MAX else one * 1000 for one in values]
        return pa.array(in_us, pa.int64()).cast(TIMESTAMP)
    return pa.array(list(values), type_)


def known_ms(time_ms: int) -> int | None:
    """A time of a record; None where Kafka has -1 for none."""
    return None if time_ms < 0 else time_ms
