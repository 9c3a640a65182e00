"""Decisions on the requests of recorded groups: the batches that Kafka 4.3.1 wrote.

Compared: every record, its place in its batch, all fields. Not the order of topics inside a record
and of targets (records 7) beside each other, which Java's hash maps decide; nor the times of
records 6 and 16 to the ms: the recorded ones are put in.
"""

import json
import re
from base64 import urlsafe_b64decode
from copy import deepcopy
from functools import cache
from typing import Any, Final

import pytest

from coordinator.group.consumer.draft import GroupDraft
from coordinator.group.consumer.epochs import resolve_regexes
from coordinator.group.consumer.heartbeat import HeartbeatResult
from coordinator.group.consumer.regexes import Resolution
from coordinator.group.consumer.settings import GroupSettings
from coordinator.group.consumer.tombstones import group_tombstones
from coordinator.records.json_form import struct_to_json
from coordinator.records.schema import CoordinatorRecord
from tests.coordinator.golden import golden_records
from tests.coordinator.group.consumer.driver import Driver, cluster_of

RECORD: Final = re.compile(r" key: (\{.*\}) payload: (.*)$")
TYPES: Final = frozenset(["3", "4", "5", "6", "7", "8", "16"])
IDS: Final = {
    "orders": urlsafe_b64decode("jNlRHIp2Rce5WKmyU124zg=="),
    "payments": urlsafe_b64decode("ODUGBywWTmC1Yu5yGJlNxw=="),
    "orders-perf": urlsafe_b64decode("MeQO0indTQODsZKLydpaAQ=="),
}
CLUSTER: Final = cluster_of({"orders": 3, "payments": 2, "orders-perf": 1}, IDS)


@cache
def all_batches() -> tuple[dict[str, Any], ...]:
    """Batches with records of consumer groups: their group, time and records."""
    found: dict[tuple[str, int], dict[str, Any]] = {}
    for partition in ("__consumer_offsets-0", "__consumer_offsets-1", "__consumer_offsets-2"):
        for golden in golden_records(partition):
            key, payload = RECORD.search(golden.line).groups()
            record = {"key": json.loads(key), "payload": None}
            if payload != "<DELETE>":
                record["payload"] = json.loads(payload)
            if record["key"]["type"] not in TYPES:
                continue
            batch = found.setdefault(
                (partition, golden.batch.header.base_offset),
                {
                    "group": record["key"]["data"]["groupId"],
                    "createTime": golden.view.timestamp_ms,
                    "records": [],
                },
            )
            batch["records"].append(record)
    return tuple(found.values())


def batches(group: str) -> list[dict[str, Any]]:
    return deepcopy([batch for batch in all_batches() if batch["group"] == group])


def as_text(record: dict[str, Any]) -> str:
    """A record with the topics inside it in the order of their ids."""
    for field in ("topicPartitions", "assignedPartitions", "partitionsPendingRevocation"):
        data = (record["payload"] or {"data": {}})["data"]
        if field in data:
            data[field].sort(key=lambda row: row["topicId"])
    return json.dumps(record, sort_keys=True)


def in_order(records: list[dict[str, Any]]) -> list[str]:
    """The records as texts, targets that stand beside each other sorted."""
    texts, targets = [], []
    for record in records:
        if record["key"]["type"] == "7" and record["payload"] is not None:
            targets.append(as_text(record))
            continue
        texts += [*sorted(targets), as_text(record)]
        targets = []
    return texts + sorted(targets)


def json_of(record: CoordinatorRecord) -> dict[str, Any]:
    key = {"type": str(record.key.type), "data": struct_to_json(record.key, 0)}
    value = record.value
    payload = None
    if value is not None:
        payload = {"version": "0", "data": struct_to_json(value, 0)}
        if hasattr(value, "classic_member_metadata"):
            assert value.classic_member_metadata is None
    return {"key": key, "payload": payload}


class Replay(Driver):
    """A recorded group: `expect` compares the last records with the next recorded batch."""

    def __init__(self, group_id: str) -> None:
        super().__init__(CLUSTER, group_settings=GroupSettings(), group_id=group_id)
        self.left = batches(group_id)
        self.tell_time()

    def tell_time(self) -> None:
        """Set the clock to the time that the next batch says."""
        if self.left:
            times = [self.left[0]["createTime"]]
            for record in self.left[0]["records"]:
                data = (record["payload"] or {"data": {}})["data"]
                times += [
                    data[name] for name in ("assignmentTimestamp", "timestamp") if name in data
                ]
            self.wall_ms = times[-1]

    def expect(self) -> None:
        batch = self.left.pop(0)
        assert in_order([json_of(record) for record in self.records]) == in_order(batch["records"])
        self.tell_time()

    def expect_deletion(self) -> None:
        self.records = group_tombstones(self.group)
        self.expect()
        assert self.left == []


def join_of(batch: dict[str, Any]) -> dict[str, Any]:
    """The fields of the request by which a recorded member joined."""
    key, data = batch["records"][0]["key"], batch["records"][0]["payload"]["data"]
    return {
        "member_id": key["data"]["memberId"],
        "epoch": 0,
        "instance_id": data["instanceId"],
        "rack_id": data["rackId"],
        "rebalance_timeout_ms": data["rebalanceTimeoutMs"],
        "subscribed_topic_names": tuple(data["subscribedTopicNames"]) or None,
        "subscribed_topic_regex": data["subscribedTopicRegex"] or None,
        "server_assignor": data["serverAssignor"],
        "owned": {},
        "client_id": data["clientId"],
        "client_host": data["clientHost"],
    }


@pytest.mark.parametrize(
    ("group", "is_deleted"), [("g-range", True), ("g-verif8", False), ("g-console848", False)]
)
def test_a_group_of_one_member(group: str, is_deleted: bool) -> None:
    replay = Replay(group)
    fields = join_of(replay.left[0])
    replay.beat(**fields)
    replay.expect()
    replay.leave(fields["member_id"])
    replay.expect()
    if is_deleted:
        replay.expect_deletion()
    assert replay.left == []


def client(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: fields[name] for name in ("member_id", "client_id", "client_host")}


def test_a_group_of_two_members_of_which_one_is_static() -> None:
    replay = Replay("g-k848")
    one, two = join_of(replay.left[0]), join_of(replay.left[1])
    replay.beat(**one)
    replay.expect()
    replay.beat(**two)  # within the interval: no targets yet
    replay.expect()
    replay.beat(**client(one), owned={IDS["orders"]: (0, 1, 2), IDS["payments"]: (0, 1)})
    replay.expect()
    replay.beat(**client(one), owned={IDS["orders"]: (0,), IDS["payments"]: (0, 1)})
    replay.expect()
    replay.beat(**client(two), instance_id="kinst")
    replay.expect()
    replay.leave(one["member_id"])
    replay.expect()
    replay.beat(**client(two), instance_id="kinst")
    replay.expect()
    replay.leave(two["member_id"], instance_id="kinst")
    replay.expect()
    assert replay.left == []


def resolve(replay: Replay, result: HeartbeatResult) -> None:
    """Resolve the regular expressions, as at the offset that the record tells."""
    version = replay.left[0]["records"][0]["payload"]["data"]["version"]
    assert result.regexes == {"orde.*"}
    resolution = Resolution(
        result.regexes,
        sorted(IDS),
        version=version,
        wall_ms=replay.left[0]["records"][0]["payload"]["data"]["timestamp"],
        may_describe=lambda name: name != "payments",
    )
    assert resolution.step()
    draft = GroupDraft(replay.group)
    resolve_regexes(draft, resolution.result(), replay.hashes, replay.cluster)
    replay.take(tuple(draft.records))


def test_a_group_with_a_regular_expression() -> None:
    replay = Replay("g-regex")
    fields = join_of(replay.left[0])
    result = replay.beat(**fields)
    replay.expect()
    resolve(replay, result)
    replay.expect()
    assert replay.beat(**client(fields), owned={}).regexes is None
    replay.expect()
    replay.new_topics_version = 117
    result = replay.beat(**client(fields))
    assert replay.records == ()
    resolve(replay, result)
    replay.expect()
    replay.leave(fields["member_id"])
    replay.expect()
    replay.expect_deletion()
