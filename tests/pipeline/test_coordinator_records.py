"""Records of Kafka's own topics: what Kafka 4.3.1 writes, and its own JSON of the same objects."""

import json
from pathlib import Path

import pytest

from pipeline.core.reading.options import parse_options
from pipeline.core.reading.reader import read_table
from tests.pipeline.segments import batch, write_partition

KEY = "0001670000000000000001000000000000000200000003"  # without the type
SNAPSHOT = (
    "000000000007000000010000000200000000000000640000018bcfe568000000018bcfe568010200000000000000"
    "64000000000000006d02000100"
)
UPDATE = "00000000000700000002ffffffffffffffff02000000000000006e000000000000006e040005000100040000"
SHOWN_KEY = {"groupId": "g", "topicId": "AAAAAAAAAAEAAAAAAAAAAg", "partition": 3}
SHOWN_SNAPSHOT = {
    "snapshotEpoch": 7, "stateEpoch": 1, "leaderEpoch": 2, "startOffset": 100,
    "createTimestamp": 1700000000000, "writeTimestamp": 1700000000001,
    "stateBatches": [{"firstOffset": 100, "lastOffset": 109, "deliveryState": 2,
                      "deliveryCount": 1}],
}  # fmt: skip
SHOWN_UPDATE = {
    "snapshotEpoch": 7, "leaderEpoch": 2, "startOffset": -1, "deliveryCompleteCount": 6,
    "stateBatches": [{"firstOffset": 110, "lastOffset": 110, "deliveryState": 4,
                      "deliveryCount": 5}],
}  # fmt: skip


def described(root: Path, key: str, value: str | None) -> dict:
    content = None if value is None else bytes.fromhex(value)
    one = batch(0, [content], keys=[bytes.fromhex(key)])
    write_partition(root, [one], name="__share_group_state-0")
    (row,) = read_table(parse_options({"path": str(root), "decode": "json"})).to_pylist()
    return row


@pytest.mark.parametrize(
    ("kind", "name", "value", "shown"),
    [
        (0, "ShareSnapshot", SNAPSHOT + "00", SHOWN_SNAPSHOT),
        (0, "ShareSnapshot", SNAPSHOT + "01000400000005",
         SHOWN_SNAPSHOT | {"deliveryCompleteCount": 5}),
        (1, "ShareUpdate", UPDATE + "0006", SHOWN_UPDATE),
    ],
)  # fmt: skip
def test_share_group_state(tmp_path: Path, kind: int, name: str, value: str, shown: dict) -> None:
    row = described(tmp_path, f"{kind:04x}" + KEY, value)
    assert (row["apiKey"], row["apiName"], row["apiVersion"]) == (kind, name, 0)
    assert json.loads(row["json"]) == {
        "key": {"type": str(kind), "data": SHOWN_KEY},
        "value": {"version": "0", "data": shown},
    }


def test_a_share_group_state_that_is_deleted_or_not_known(tmp_path: Path) -> None:
    row = described(tmp_path, "0000" + KEY, None)
    assert json.loads(row["json"])["value"] is None
    for key, value in (("0002" + KEY, SNAPSHOT), ("0000" + KEY, SNAPSHOT)):  # unknown; cut
        row = described(tmp_path, key, value)
        assert row["apiName"] == "UNKNOWN_RECORD"
        assert json.loads(row["json"])["data"]["hex"] == value
