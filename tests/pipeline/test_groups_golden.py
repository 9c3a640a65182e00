"""Tables of groups and transactions from logs that Kafka 4.3.1 wrote, against its dump tool."""

import json
from datetime import datetime
from typing import Any

import pyarrow as pa
import pytest

from pipeline.core.groups.group_log import GroupLog, fold_group_log
from pipeline.core.groups.log_records import LogRecord
from pipeline.core.groups.transaction_log import TransactionLog, fold_transaction_log
from tests.coordinator.golden import batches, golden_records

OFFSETS = ("__consumer_offsets-0", "__consumer_offsets-1", "__consumer_offsets-2")
TRANSACTIONS = ("__transaction_state-0", "__transaction_state-1")
STATES = ("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort")


def records_of(partition: str) -> list[LogRecord]:
    return [
        LogRecord(
            offset=view.offset, time_ms=view.timestamp_ms, key=view.key, value=view.value,
            producer_id=found.header.producer_id if found.header.is_transactional else None,
            is_control=found.header.is_control, batch=found.header.base_offset,
        )
        for found in batches(partition)
        for view in found.records()
    ]  # fmt: skip


def folded(partition: str) -> GroupLog:
    return fold_group_log(records_of(partition), int(partition.rsplit("-", 1)[1]))


def transactions_of(partition: str) -> TransactionLog:
    return fold_transaction_log(records_of(partition), int(partition.rsplit("-", 1)[1]))


def dumped(partition: str, *types: str) -> list[tuple[int, int, dict, dict | None]]:
    """Offset, time, key and value that the tool printed of records with these types of keys."""
    found = []
    for one in golden_records(partition):
        text = one.line[one.line.index("key: {") + 5 :]
        key, end = json.JSONDecoder().raw_decode(text)
        if key["type"] not in types:
            continue
        payload = text[end + len(" payload: ") :]
        value = None if payload == "<DELETE>" else json.loads(payload)
        words = one.line.split()
        assert words[1] == "offset:"
        assert words[3] == "CreateTime:"
        found.append((int(words[2]), int(words[4]), key["data"], value and value["data"]))
    return found


def milliseconds(moment: datetime | None) -> int | None:
    return None if moment is None else round(moment.timestamp() * 1000)


@pytest.mark.parametrize("partition", OFFSETS)
def test_commits_are_those_that_kafka_prints(partition: str) -> None:
    expected = []
    for offset, time, key, value in dumped(partition, "0", "1"):
        content: dict[str, Any] = value or {}
        epoch = content.get("leaderEpoch", -1)
        expected.append(
            (offset, time, key["group"], key["topic"], key["partition"], content.get("offset"),
             None if epoch < 0 else epoch, content.get("metadata"), content.get("commitTimestamp"),
             content.get("topicId"), value is None)
        )  # fmt: skip
    rows = folded(partition).commits.to_pylist()
    assert [
        (row["log_offset"], milliseconds(row["log_ts"]), row["group_id"], row["topic"],
         row["partition"], row["committed_offset"], row["leader_epoch"], row["metadata"],
         milliseconds(row["commit_ts"]), row["topic_id"], row["outcome"] == "tombstone")
        for row in rows
    ] == expected  # fmt: skip
    assert {row["log_partition"] for row in rows} == {int(partition[-1])}
    assert {row["expire_ts"] for row in rows} == {None}


def test_commits_of_transactions_have_the_outcome_of_their_marker() -> None:
    rows = [row for name in OFFSETS for row in folded(name).commits.to_pylist()]
    # the log of the transactions says the same of the transaction that each is of
    outcomes = {"Ongoing": "pending", "CompleteCommit": "committed", "CompleteAbort": "aborted"}
    told = [row for name in TRANSACTIONS for row in transactions_of(name).transactions.to_pylist()]
    met = set()
    for row in rows:
        if row["producer_id"] is None:
            assert (row["decided_offset"], row["decided_ts"]) == (None, None)
            continue
        (of,) = (
            one for one in told
            if one["producer_id"] == row["producer_id"]
            and one["start_ts"] <= row["log_ts"] <= (one["prepared_ts"] or row["log_ts"])
        )  # fmt: skip
        assert row["outcome"] == outcomes[of["state"]]
        assert (row["decided_offset"] is None) == (of["completed_ts"] is None)
        written = {one["topic"]: one["partitions"] for one in of["partitions"]}
        assert row["log_partition"] in written["__consumer_offsets"]
        met.add(of["state"])
    assert met == outcomes.keys()
    assert {row["outcome"] for row in rows} == {"committed", "tombstone", "pending", "aborted"}


@pytest.mark.parametrize("partition", OFFSETS)
def test_what_is_committed_at_the_end_is_what_a_coordinator_loads(partition: str) -> None:
    found = folded(partition)
    last = {(one.group_id, one.topic, one.partition): one.offsets[-1][1] for one in found.timelines}
    image = found.image
    loaded = {
        (group_id, *at): entry.offset
        for group_id, of_group in image.offsets.items() for at, entry in of_group.items()
    }  # fmt: skip
    assert {key: offset for key, offset in last.items() if offset >= 0} == loaded
    for row in found.groups.to_pylist():
        assert row["committed_partitions"] == len(image.offsets.get(row["group_id"], ()))


@pytest.mark.parametrize("partition", OFFSETS)
def test_generations_and_members_of_classic_groups(partition: str) -> None:
    found = folded(partition)
    classic = [row for row in found.rebalances.to_pylist() if row["protocol"] == "classic"]
    expected, generations = [], {}
    for offset, _, key, value in dumped(partition, "2"):
        if value is None:
            generations.pop(key["group"], None)
            continue
        if generations.get(key["group"]) != value["generation"]:
            expected.append((offset, key["group"], value["generation"], value["protocol"],
                             value["leader"], len(value["members"])))  # fmt: skip
        generations[key["group"]] = value["generation"]
    assert [
        (row["log_offset"], row["group_id"], row["epoch"], row["assignor"], row["leader"],
         row["members"])
        for row in classic
    ] == expected  # fmt: skip
    assert all(row["settled_offset"] == row["log_offset"] for row in classic)
    rows = {(row["valid_from_offset"], row["member_id"]): row
            for row in found.members.to_pylist() if row["protocol"] == "classic"}  # fmt: skip
    seen = set()
    for offset, _, _, value in dumped(partition, "2"):
        for member in value["members"] if value else ():
            row = rows.get((offset, member["memberId"]))
            if row is None:
                continue  # nothing of the member changed
            seen.add((offset, member["memberId"]))
            assigned = {one["topic"]: one["partitions"] for one in row["assigned"]}
            theirs = member["assignment"] or {"assignedPartitions": []}
            assert assigned == {one["topic"]: sorted(one["partitions"])
                                for one in theirs["assignedPartitions"]}  # fmt: skip
            assert row["subscribed_topics"] == sorted(member["subscription"]["topics"])
            assert (row["client_id"], row["client_host"], row["instance_id"]) == (
                member["clientId"], member["clientHost"], member["groupInstanceId"])  # fmt: skip
    assert seen == rows.keys()


@pytest.mark.parametrize("partition", OFFSETS)
def test_epochs_and_members_of_consumer_groups(partition: str) -> None:
    found = folded(partition)
    epochs = [(row["group_id"], row["epoch"]) for row in found.rebalances.to_pylist()
              if row["protocol"] == "consumer"]  # fmt: skip
    printed = [(key["groupId"], value["epoch"]) for _, _, key, value in dumped(partition, "3")
               if value]  # fmt: skip
    # a group whose first batch has no record of an epoch is in its first one
    begun = {("g-regex", 1)} if partition == OFFSETS[1] else set()
    assert set(epochs) - begun == set(printed)
    rows = [row for row in found.members.to_pylist() if row["protocol"] == "consumer"]
    reached = {(row["group_id"], row["member_id"], row["epoch"]) for row in rows}
    current = dumped(partition, "8")
    printed_epochs = {(key["groupId"], key["memberId"], value["memberEpoch"])
                      for _, _, key, value in current if value}  # fmt: skip
    assert reached == printed_epochs
    last = {}
    for _, _, key, value in current:
        if value:
            last[key["memberId"]] = {one["topicId"]: sorted(one["partitions"])
                                     for one in value["assignedPartitions"]}  # fmt: skip
    for member_id, assigned in last.items():
        row = [one for one in rows if one["member_id"] == member_id][-1]
        assert {one["topic_id"]: one["partitions"] for one in row["assigned"]} == assigned
        assert {one["topic"] for one in row["assigned"]} <= {"orders", "payments", "orders-perf"}
        assert row["valid_to_offset"] is not None  # all members left in the end


def test_a_member_waits_for_partitions_of_another() -> None:
    found = folded("__consumer_offsets-2")
    row = next(row for row in found.rebalances.to_pylist()
               if row["group_id"] == "g-k848" and row["epoch"] == 3)  # fmt: skip
    assert (row["log_offset"], row["settled_offset"], row["members"]) == (12, 23, 2)
    assert len(row["joined"]) == 1
    (revoking,) = (row for row in found.members.to_pylist()
                   if row["state"] == "unrevoked_partitions")  # fmt: skip
    assert sum(len(one["partitions"]) for one in revoking["revoking"]) > 0
    assert sum(len(one["partitions"]) for one in revoking["target"]) > 0


def test_records_without_a_declaration_are_counted_by_name() -> None:
    names = {"10": "ShareGroupMemberMetadata", "11": "ShareGroupMetadata",
             "12": "ShareGroupTargetAssignmentMetadata", "13": "ShareGroupTargetAssignmentMember",
             "14": "ShareGroupCurrentMemberAssignment", "15": "ShareGroupStatePartitionMetadata",
             "17": "StreamsGroupMetadata", "19": "StreamsGroupMemberMetadata",
             "20": "StreamsGroupTargetAssignmentMetadata",
             "21": "StreamsGroupTargetAssignmentMember",
             "22": "StreamsGroupCurrentMemberAssignment", "23": "StreamsGroupTopology"}  # fmt: skip
    for partition in OFFSETS:
        counts = folded(partition).counts
        expected = {name: len(dumped(partition, number)) for number, name in names.items()}
        assert counts.undeclared == {name: count for name, count in expected.items() if count}
        assert counts.refused_count == 0


@pytest.mark.parametrize("partition", TRANSACTIONS)
def test_transactions_are_those_that_kafka_prints(partition: str) -> None:
    found = transactions_of(partition)
    expected: dict[tuple[str, int], dict[str, Any]] = {}
    ids: dict[str, tuple[int, str]] = {}
    for _, _, key, value in dumped(partition, "0"):
        name = key["transactionalId"]
        if value is None:
            ids.pop(name)
            continue
        state = STATES[value["transactionStatus"]]
        ids[name] = value["producerId"], state
        start = value["transactionStartTimestampMs"]
        if start < 0:
            continue
        updated = value["transactionLastUpdateTimestampMs"]
        row = expected.setdefault(
            (name, start),
            {"producer": value["producerId"], "epoch": value["producerEpoch"],
             "timeout": value["transactionTimeoutMs"], "prepared": None, "completed": None,
             "partitions": {}},
        )  # fmt: skip
        row |= {"state": state, "updated": updated}
        if state.startswith("Prepare"):
            row["prepared"] = updated
        if state.startswith("Complete"):
            row["completed"] = updated
        partitions = {one["topic"]: sorted(one["partitionIds"])
                      for one in value["transactionPartitions"] or ()}  # fmt: skip
        row["partitions"] = partitions or row["partitions"]
    assert {
        (row["transactional_id"], milliseconds(row["start_ts"])): {
            "producer": row["producer_id"], "epoch": row["producer_epoch"],
            "timeout": row["timeout_ms"], "prepared": milliseconds(row["prepared_ts"]),
            "completed": milliseconds(row["completed_ts"]), "state": row["state"],
            "updated": milliseconds(row["last_update_ts"]),
            "partitions": {one["topic"]: one["partitions"] for one in row["partitions"]},
        }
        for row in found.transactions.to_pylist()
    } == expected  # fmt: skip
    assert {one.transactional_id: (one.producer_id, one.state) for one in found.ids} == ids


def test_tables_have_the_columns_of_each_partition() -> None:
    tables = [folded(name) for name in OFFSETS]
    assert pa.concat_tables([one.commits for one in tables]).num_rows == 541
    assert sum(one.groups.num_rows for one in tables) == 40
