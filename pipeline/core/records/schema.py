"""Columns of the source: names, Arrow types, order; one table per decode mode.

Arrow types are those that Spark accepts from a Python source: string and binary with 32-bit
offsets, timestamps in microseconds of UTC. Every column is nullable.
"""

from typing import Final

import pyarrow as pa

from pipeline.core.errors import BadInputError

TIMESTAMP: Final = pa.timestamp("us", tz="UTC")
HEADERS: Final = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
CORRUPT_BATCH: Final = "_corrupt_batch"
CORRUPT_TYPE: Final = pa.struct(
    [
        ("reason", pa.string()),
        ("position", pa.int64()),
        ("length", pa.int64()),
        ("detail", pa.string()),
    ]
)
DECODE_MODES: Final = ("metadata", "records", "raw", "json")

KAFKA_COLUMNS: Final = ("key", "value", "topic", "partition", "offset", "timestamp",
                        "timestampType")  # fmt: skip
_KAFKA: Final[dict[str, pa.DataType]] = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": TIMESTAMP,
    "timestampType": pa.int32(),
    "headers": HEADERS,
}
_PHYSICAL: Final[dict[str, pa.DataType]] = {
    "leaderEpoch": pa.int32(),
    "producerId": pa.int64(),
    "producerEpoch": pa.int16(),
    "sequence": pa.int32(),
    "isTransactional": pa.bool_(),
    "isControl": pa.bool_(),
    "codec": pa.string(),
    "batchBaseOffset": pa.int64(),
    "batchPosition": pa.int64(),
    "batchSize": pa.int32(),
    "segment": pa.string(),
    "nodeId": pa.int32(),
    "topicId": pa.string(),
}
_JSON: Final[dict[str, pa.DataType]] = {
    "json": pa.string(),
    "apiKey": pa.int32(),
    "apiName": pa.string(),
    "apiVersion": pa.int32(),
}
RECORD_COLUMNS: Final = _KAFKA | _PHYSICAL
# JSON columns take the place of "value"
JSON_COLUMNS: Final = (
    {"key": pa.binary()} | _JSON | {name: _KAFKA[name] for name in list(_KAFKA)[2:]} | _PHYSICAL
)
# Columns given only by name: sizes without a copy of the bytes, -1 for null.
SIZE_COLUMNS: Final[dict[str, pa.DataType]] = {"keySize": pa.int32(), "valueSize": pa.int32()}
BATCH_COLUMNS: Final[dict[str, pa.DataType]] = {
    "topic": pa.string(),
    "partition": pa.int32(),
    "baseOffset": pa.int64(),
    "lastOffset": pa.int64(),
    "leaderEpoch": pa.int32(),
    "magic": pa.int32(),
    "crc": pa.int64(),
    "crcOk": pa.bool_(),
    "codec": pa.string(),
    "timestampType": pa.int32(),
    "isTransactional": pa.bool_(),
    "isControl": pa.bool_(),
    "hasDeleteHorizon": pa.bool_(),
    "baseTimestamp": TIMESTAMP,
    "maxTimestamp": TIMESTAMP,
    "producerId": pa.int64(),
    "producerEpoch": pa.int16(),
    "baseSequence": pa.int32(),
    "count": pa.int32(),
    "position": pa.int64(),
    "size": pa.int32(),
    "segment": pa.string(),
    "nodeId": pa.int32(),
    "topicId": pa.string(),
}
RAW_COLUMNS: Final = BATCH_COLUMNS | {"bytes": pa.binary()}
_FULL: Final = {
    "records": RECORD_COLUMNS,
    "json": JSON_COLUMNS,
    "metadata": BATCH_COLUMNS,
    "raw": RAW_COLUMNS,
}


def columns_of(decode: str) -> dict[str, pa.DataType]:
    """Every column of a decode mode that can be named, in order."""
    if decode in ("records", "json"):
        return _FULL[decode] | SIZE_COLUMNS
    return _FULL[decode]


def schema_of(
    decode: str, columns: str = "full", *, include_headers: bool = False, corrupt: bool = False
) -> pa.Schema:
    """The Arrow schema of a read.

    Args:
        decode: one of DECODE_MODES.
        columns: `full`, `kafka` (Spark's own Kafka source; only decode=records), or names
            separated by commas, in that order.
        include_headers: add the column headers to `kafka`.
        corrupt: append the column `_corrupt_batch` (mode PERMISSIVE).

    Raises:
        BadInputError: a name does not exist or is given twice.
    """
    known = columns_of(decode)
    if columns == "full":
        names = list(_FULL[decode])
    elif columns == "kafka":
        if decode != "records":
            raise BadInputError(f"columns=kafka needs decode=records, not decode={decode}")
        names = [*KAFKA_COLUMNS, *(("headers",) if include_headers else ())]
    else:
        names = [name.strip() for name in columns.split(",") if name.strip()]
    if corrupt and CORRUPT_BATCH in names:
        names.remove(CORRUPT_BATCH)
    check_names(names, decode)
    fields = [pa.field(name, known[name]) for name in names]
    if corrupt:
        fields.append(pa.field(CORRUPT_BATCH, CORRUPT_TYPE))
    return pa.schema(fields)


def check_names(names: list[str], decode: str) -> None:
    """Refuse columns that a decode mode does not have.

    Raises:
        BadInputError: no name, an unknown one, or one given twice.
    """
    known = columns_of(decode)
    if not names:
        raise BadInputError("columns is empty: full, kafka or a list of names")
    for name in names:
        if name not in known:
            raise BadInputError(
                f"column {name!r} does not exist with decode={decode};"
                f" there are: {', '.join(known)}"
            )
    if len(set(names)) != len(names):
        raise BadInputError(f"columns names one twice: {', '.join(names)}")
