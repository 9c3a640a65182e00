"""The topics that the recorded runs met, made again from what the outputs of the tools print."""

import json
from pathlib import Path
from typing import Any

from tests.cli.records.broker import Broker, Log
from wire.batches.batch import CONTROL_BIT

TRANSACTIONAL = 0x10
COMMIT, ABORT = b"\0\0\0\1", b"\0\0\0\0"
MARKER = b"\0\0\0\0\0\0"
HANGING, COMMITTED, OPEN, PENDING = 3000, 16, 18, 20
AUDIT_MS = [1795394734203, 1795394734220, 1795394734220, 1795394735705, 1795394735734,
            1795394739110, 1795394761580]  # fmt: skip
AUDIT: list[tuple[bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]] = [
    (b"key1", b"value1", (("h1", b"v1"), ("h2", b"v2"))),
    (b"key2", b"value2", (("h1", b"x"), ("h1", b"y"))),
    (b"key3", b"", (("h", b""),)),
    (b"k", None, ()),
    (None, b"v", (("h", None),)),
    (None, b"dep", ()),
    (b"open", b"o2", ()),
]


def mark(log: Log, kind: bytes, producer_id: int) -> None:
    """The end of a transaction."""
    log.append(
        (kind, MARKER), attributes=TRANSACTIONAL | CONTROL_BIT, producer_id=producer_id,
        producer_epoch=0,
    )  # fmt: skip


def in_transaction(log: Log, producer_id: int, *values: bytes) -> None:
    log.append(*values, attributes=TRANSACTIONAL, producer_id=producer_id, producer_epoch=0,
               base_sequence=0)  # fmt: skip


def _orders() -> list[Log]:
    first, second = Log(), Log()
    first.append(*(b"line %d" % n for n in range(30)))
    for n in range(5):
        first.append(b"zipped %d" % n, attributes=1)
    in_transaction(second, HANGING, b"hanging")
    mark(second, ABORT, HANGING)
    return [first, second, Log()]


def _payments() -> list[Log]:
    first, second = Log(), Log()
    first.append((b"k3", b"v3"), (b"k4", b"v4"), (b"k5", b"v5"), (b"k7", b"v7"))
    first.append((b"a", b"b"), (b"c", b"d|e"), b"no separator here", (b"k", b"v"))
    in_transaction(first, COMMITTED, b"tv1")
    mark(first, COMMIT, COMMITTED)
    in_transaction(first, OPEN, b"o1")
    in_transaction(first, COMMITTED, b"a1")
    mark(first, ABORT, COMMITTED)
    in_transaction(first, PENDING, b"pp")
    first.stable, first.aborted = 10, ((COMMITTED, 11, 12),)
    second.append((b"k0", b"v0"), (b"k1", b"v1"), (b"k2", b"v2"), (b"k6", b"v6"))
    second.append((b"good", b"value"))
    in_transaction(second, COMMITTED, b"b")
    mark(second, COMMIT, COMMITTED)
    in_transaction(second, PENDING, b"c")
    mark(second, ABORT, PENDING)
    in_transaction(second, OPEN, b"z")
    mark(second, ABORT, OPEN)
    second.aborted = ((PENDING, 7, 8), (OPEN, 9, 10))
    return [first, second]


def _audit() -> list[Log]:
    log = Log()
    for at, (key, value, headers) in zip(AUDIT_MS, AUDIT, strict=True):
        log.append((key, value, headers), max_timestamp_ms=at)
    return [log]


def broker(name: str = "") -> Broker:
    """Every topic, as late as the outputs that read it; a run may come later."""
    made = Broker(
        orders=_orders(), payments=_payments(), audit=_audit(), profiles=1,
        **{"orders-perf": 1, "empty-topic": 1},
    )  # fmt: skip
    made.topics["profiles"].is_compacted = True
    made.sizes = dict(SIZES)
    if name.endswith("/verifiable-producer"):
        mark(made.topics["payments"].logs[0], ABORT, PENDING)
    return made


SIZES = {
    ("payments", 0): 805, ("payments", 1): 626, ("profiles", 0): 91, ("orders-perf", 0): 0,
    ("__share_group_state", 0): 1296, ("audit", 0): 356, ("__consumer_offsets", 0): 27094,
    ("__transaction_state", 0): 2248, ("__transaction_state", 1): 4477, ("orders", 0): 951,
    ("orders", 1): 155, ("orders", 2): 0, ("empty-topic", 0): 0,
    ("__consumer_offsets", 1): 28142, ("__consumer_offsets", 2): 20207,
}  # fmt: skip
"""Of log-dirs, from its output: other records were in the log then."""


FILES: dict[str, Any] = {
    "del.json": [("orders", 0, 2)],
    "del-hw.json": [("payments", 1, -1)],
    "del-high.json": [("orders", 0, 99999)],
    "del-compact.json": [("profiles", 0, 1)],
    "del-dup.json": [("orders", 0, 1), ("orders", 0, 2)],
    "del-unknown.json": [("nope", 0, 1)],
    "del-empty.json": [],
}
TEXTS = {
    "del-bad.json": "{",
    "del-nopart.json": '{"version": 1}',
    "del-v2.json": '{"version": 2, "partitions": []}',
    "payload.txt": "one\ntwo\nthree\n",
}


def write_files(folder: Path) -> None:
    """The files of the command lines; what was in them is told by the outputs."""
    for name, rows in FILES.items():
        keys = ("topic", "partition", "offset")
        value = {"version": 1, "partitions": [dict(zip(keys, row, strict=True)) for row in rows]}
        (folder / name).write_text(json.dumps(value))
    for name, text in TEXTS.items():
        (folder / name).write_text(text)
