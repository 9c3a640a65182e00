"""Tables of a history: columns in Spark's DDL, and the Arrow schemas of files between tasks.

Tasks write typed events, one file per task and kind: `partition` and `broker` events overlay each
other, `keyed` ones hold a whole state as JSON (null: removed). They are folded into intervals.
"""

from typing import Final

import pyarrow as pa

from pipeline.core.records.schema import TIMESTAMP

INTS: Final = pa.list_(pa.int32())
TEXTS: Final = pa.list_(pa.string())
# Place at which an event takes effect. `visible` is its offset; in a transaction that of its end.
PLACE: Final = [
    ("visible", pa.int64()),
    ("offset", pa.int64()),
    ("idx", pa.int32()),
    ("batch_offset", pa.int64()),
    ("ts", TIMESTAMP),
    ("epoch", pa.int32()),
    ("api", pa.string()),
    ("seed", pa.bool_()),
]
# Lists are packed (`history.packed_lists`); without a transaction `visible` repeats `offset`.
_PACKED: Final = [
    (name, pa.binary())
    for name in ("replicas", "isr", "elr", "last_known_elr", "adding", "removing", "directories")
]
_NUMBERS: Final = [
    ("visible", pa.int64()),
    ("offset", pa.int64()),
    ("idx", pa.int32()),
    ("batch_offset", pa.int64()),
    ("ts", TIMESTAMP),
    ("epoch", pa.int32()),
    ("seed", pa.bool_()),
]
PARTITION_EVENTS: Final = pa.schema(
    [
        ("topic_id", pa.binary()),
        ("partition", pa.int32()),
        ("api", pa.int8()),
        ("leader", pa.int32()),
        ("base_leader_epoch", pa.int32()),
        ("base_partition_epoch", pa.int32()),
        *_PACKED,
        ("recovery", pa.int32()),
        *_NUMBERS,
    ]
)
# An open interval with the state that the next run needs, including the open ends of reports.
PARTITION_STATE: Final = pa.schema(
    [
        ("topic_id", pa.binary()),
        ("partition", pa.int32()),
        ("api", pa.int8()),
        ("leader", pa.int32()),
        ("leader_epoch", pa.int32()),
        ("partition_epoch", pa.int32()),
        *_PACKED,
        ("recovery", pa.int32()),
        *(column for column in _NUMBERS if column[0] != "idx"),
        ("prev_leader", pa.int32()),
        ("prev_isr", pa.binary()),
        ("prev_replicas", pa.binary()),
        ("prev_elr", pa.binary()),
        ("change", pa.int8()),
        ("last_change_ts", TIMESTAMP),
        ("span_ts", TIMESTAMP),
        ("span_offset", pa.int64()),
        ("span_in_sync", pa.int32()),
    ]
)
# A broker that left the ISR of a partition and has not come back.
AWAY_STATE: Final = pa.schema(
    [
        ("topic_id", pa.binary()),
        ("partition", pa.int32()),
        ("broker", pa.int32()),
        ("ts", TIMESTAMP),
    ]
)
# `isr_churn` before its medians: all times away of each group, in seconds.
CHURN: Final = pa.schema(
    [
        ("window", TIMESTAMP),
        ("topic", pa.string()),
        ("broker", pa.int32()),
        ("shrinks", pa.int64()),
        ("expands", pa.int64()),
        ("out_s", pa.list_(pa.float64())),
    ]
)
BROKER_EVENTS: Final = pa.schema(
    [
        ("broker_id", pa.int32()),
        ("is_reset", pa.bool_()),
        ("is_removed", pa.bool_()),
        ("registration", pa.string()),
        ("fenced", pa.bool_()),
        ("in_shutdown", pa.bool_()),
        ("log_dirs", TEXTS),
        ("cordoned", pa.string()),
        *PLACE,
    ]
)
KEYED_EVENTS: Final = pa.schema(
    [
        ("kind", pa.string()),
        ("key", pa.string()),
        ("owner", pa.string()),
        ("state", pa.string()),
        *PLACE,
    ]
)
CLEAR_EVENTS: Final = pa.schema([("topic", pa.string()), *PLACE])
EVENTS: Final = {
    "partition": PARTITION_EVENTS,
    "broker": BROKER_EVENTS,
    "keyed": KEYED_EVENTS,
    "clear_elr": CLEAR_EVENTS,
}
RECORDS: Final = pa.schema(
    [
        ("offset", pa.int64()),
        ("idx", pa.int32()),
        ("batch_offset", pa.int64()),
        ("epoch", pa.int32()),
        ("ts", TIMESTAMP),
        ("api_key", pa.int32()),
        ("api_name", pa.string()),
        ("version", pa.int32()),
        ("txn_id", pa.int64()),
        ("aborted", pa.bool_()),
        ("seed", pa.bool_()),
        ("unknown", pa.bool_()),
        ("json", pa.string()),
    ]
)
RECORDS_DDL: Final = (
    "offset bigint, idx int, batch_offset bigint, epoch int, ts timestamp, api_key int,"
    " api_name string, version int, txn_id bigint, aborted boolean, seed boolean,"
    " unknown boolean, json string, offset_million bigint"
)

VALIDITY: Final = (
    "valid_from_offset bigint, valid_from_ts timestamp, valid_to_offset bigint,"
    " valid_to_ts timestamp, cause_api string, cause_offset bigint, batch_offset bigint,"
    " controller_epoch int, seed boolean"
)
_ENDPOINTS: Final = "array<struct<name:string,host:string,port:int,protocol:int>>"
_FEATURES: Final = "map<string,struct<min:int,max:int>>"
# JSON state of a keyed table; `kind` is the table's name.
KEYED_STATES: Final = {
    "topics": "topic_id string, name string",
    "controllers": (
        "controller_id int, incarnation string, zk_migration_ready boolean,"
        f" endpoints {_ENDPOINTS}, features {_FEATURES}"
    ),
    "configs": (
        "resource_type int, resource string, name string, value string, is_sensitive_masked boolean"
    ),
    "features": "name string, level int",
    "quotas": "entity map<string,string>, key string, value double",
    "acls": (
        "id string, resource_type int, resource_name string, pattern_type int, principal string,"
        " host string, operation int, permission_type int"
    ),
    "producer_ids": "broker_id int, next bigint",
    "scram": (
        "name string, mechanism int, iterations int, salt string, stored_key string,"
        " server_key string"
    ),
    "delegation_tokens": (
        "token_id string, owner string, requester string, renewers array<string>,"
        " issue_timestamp_ms bigint, max_timestamp_ms bigint, expiration_timestamp_ms bigint"
    ),
    "zk_migration": "state int",
}
REGISTRATION: Final = (
    f"broker_epoch bigint, incarnation string, endpoints {_ENDPOINTS}, rack string,"
    f" features {_FEATURES}, is_migrating boolean"
)
SCD_TABLES: Final = {
    "partitions": (
        "topic_id string, topic string, partition int, leader int, leader_epoch int,"
        " partition_epoch int, replicas array<int>, isr array<int>, elr array<int>,"
        " last_known_elr array<int>, adding array<int>, removing array<int>,"
        " directories array<string>, recovery int, prev_leader int, prev_isr array<int>,"
        " prev_replicas array<int>, prev_elr array<int>, change array<string>, " + VALIDITY
    ),
    "brokers": (
        f"broker_id int, {REGISTRATION}, fenced boolean, in_shutdown boolean,"
        " log_dirs array<string>, cordoned_log_dirs array<string>, " + VALIDITY
    ),
} | {name: f"{state}, {VALIDITY}" for name, state in KEYED_STATES.items()}
CONTROLLER_EPOCHS: Final = (
    "epoch int, leader int, start_offset bigint, end_offset bigint, start_ts timestamp,"
    " voters array<int>, granting array<int>"
)
REPORTS: Final = {
    "leader_changes": (
        "ts timestamp, offset bigint, topic_id string, topic string, partition int, `from` int,"
        " `to` int, epoch int, kind string, ms_without_leader bigint, cause_offset bigint,"
        " controller_epoch int"
    ),
    "isr_churn": (
        "`window` timestamp, topic string, broker int, shrinks bigint, expands bigint,"
        " median_out_s double, max_out_s double"
    ),
    "under_replicated": (
        "topic_id string, topic string, partition int, from_ts timestamp, to_ts timestamp,"
        " from_offset bigint, to_offset bigint, missing array<int>, leader int,"
        " below_min_isr boolean"
    ),
}
FINDINGS: Final = "check string, table_name string, snapshot string, side string, row string"

_SIMPLE: Final = {
    "bigint": pa.int64(), "int": pa.int32(), "string": pa.string(), "boolean": pa.bool_(),
    "double": pa.float64(), "timestamp": TIMESTAMP,
}  # fmt: skip


def arrow_schema(columns: str) -> pa.Schema:
    """Arrow schema of columns in Spark's DDL, without a JVM."""
    fields = []
    for column in _split(columns):
        name, _, type_ = column.partition(" ")
        fields.append(pa.field(name.strip("`"), _arrow_type(type_)))
    return pa.schema(fields)


def _arrow_type(text: str) -> pa.DataType:
    outer, _, inner = text.strip().partition("<")
    parts = _split(inner[:-1])
    if outer == "array":
        return pa.list_(_arrow_type(parts[0]))
    if outer == "map":
        return pa.map_(_arrow_type(parts[0]), _arrow_type(parts[1]))
    if outer == "struct":
        pairs = (part.split(":", 1) for part in parts)
        return pa.struct([pa.field(name, _arrow_type(type_)) for name, type_ in pairs])
    return _SIMPLE[outer]


def _split(text: str) -> list[str]:
    """Split at the commas outside angle brackets."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter == "<") - (letter == ">")
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts]


SCD_ARROW: Final = {name: arrow_schema(columns) for name, columns in SCD_TABLES.items()}
REPORT_ARROW: Final = {name: arrow_schema(columns) for name, columns in REPORTS.items()}
