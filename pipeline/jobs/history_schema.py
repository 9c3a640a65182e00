"""The tables of a history: columns in Spark's DDL, and the Arrow schemas of what tasks hand on.

Tasks write typed events, one file per task and kind: `partition` and `broker` events overlay each
other, `keyed` ones hold a whole state as JSON (null: removed). Spark folds them into intervals.
"""

from typing import Final

import pyarrow as pa

from pipeline.core.schema import TIMESTAMP

INTS: Final = pa.list_(pa.int32())
TEXTS: Final = pa.list_(pa.string())
# Where an event takes effect. `visible` is its offset, inside a transaction that of the end.
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
PARTITION_EVENTS: Final = pa.schema(
    [
        ("topic_id", pa.string()),
        ("partition", pa.int32()),
        ("is_reset", pa.bool_()),
        ("leader", pa.int32()),
        ("base_leader_epoch", pa.int32()),
        ("base_partition_epoch", pa.int32()),
        ("replicas", INTS),
        ("isr", INTS),
        ("elr", INTS),
        ("last_known_elr", INTS),
        ("adding", INTS),
        ("removing", INTS),
        ("directories", TEXTS),
        ("recovery", pa.int32()),
        *PLACE,
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
# What the JSON state of a keyed table holds; `kind` is the table's name.
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
