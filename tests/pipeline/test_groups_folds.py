"""Folds of coordinators' logs: what a record means for the rows before it, and odd records."""

from typing import Any

from coordinator.group.consumer.client_protocol import assignment_bytes
from coordinator.records.consumer import (
    AssignedPartitions,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    TargetPartitions,
)
from coordinator.records.group import GroupMetadataKey
from coordinator.records.transaction import TransactionLogKey
from pipeline.core.groups.group_log import REFUSED_MAX, GroupLog, fold_group_log
from pipeline.core.groups.log_records import LogRecord
from pipeline.core.groups.tables import COMMITS, table_of
from pipeline.core.groups.transaction_log import fold_transaction_log
from tests.pipeline.groups_by_hand import (
    PRODUCER,
    commit,
    commit_key,
    commit_value,
    generation,
    marker,
    member,
    record,
    removal,
    transaction,
)
from tests.pipeline.segments import TIME_MS

TOPIC_ID = bytes(15) + b"\7"
TOPIC_TEXT = "AAAAAAAAAAAAAAAAAAAABw"


def outcomes(*records: LogRecord) -> list[tuple[str, int | None]]:
    rows = fold_group_log(records, 3).commits.to_pylist()
    return [(row["outcome"], row["decided_offset"]) for row in rows]


def offsets_over_time(*records: LogRecord) -> list[tuple[int, int]]:
    (timeline,) = fold_group_log(records, 3).timelines
    return [(time - TIME_MS, offset) for time, offset, _ in timeline.offsets]


def test_a_transaction_decides_all_its_commits_and_no_others() -> None:
    mine = [commit(0, 5, producer_id=PRODUCER), commit(1, 6, partition=1, producer_id=PRODUCER)]
    other = [commit(2, 9, partition=2, producer_id=8)]
    end = marker(3, commit=True)
    assert outcomes(*mine, *other, end) == [("committed", 3), ("committed", 3), ("pending", None)]
    assert outcomes(*mine, *other, marker(3, commit=False)) == [
        ("aborted", 3), ("aborted", 3), ("pending", None)]  # fmt: skip
    assert outcomes(*mine, marker(3, commit=True, producer_id=9)) == [("pending", None)] * 2
    times = {(one.partition, one.offsets[0]) for one in fold_group_log([*mine, end], 0).timelines}
    assert times == {(0, (TIME_MS + 3, 5, None)), (1, (TIME_MS + 3, 6, None))}


def test_of_a_transactional_and_a_plain_commit_the_later_record_counts() -> None:
    plain_later = [commit(0, 5, producer_id=PRODUCER), commit(1, 7), marker(2, commit=True)]
    assert outcomes(*plain_later) == [("superseded", 2), ("committed", None)]
    assert offsets_over_time(*plain_later) == [(1, 7)]
    plain_first = [commit(0, 7), commit(1, 5, producer_id=PRODUCER), marker(2, commit=True)]
    assert outcomes(*plain_first) == [("committed", None), ("committed", 2)]
    assert offsets_over_time(*plain_first) == [(0, 7), (2, 5)]


def test_a_transaction_that_commits_a_partition_twice_keeps_the_second() -> None:
    twice = [commit(0, 5, producer_id=PRODUCER), commit(1, 6, producer_id=PRODUCER)]
    assert outcomes(*twice, marker(2, commit=True)) == [("superseded", 1), ("committed", 2)]
    assert outcomes(*twice, marker(2, commit=False)) == [("superseded", 1), ("aborted", 2)]


def test_control_records_that_end_no_transaction() -> None:
    pending = commit(0, 5, producer_id=PRODUCER)
    other = LogRecord(offset=1, time_ms=TIME_MS, key=b"\0\0\0\6", value=b"",
                      producer_id=PRODUCER, is_control=True, batch=1)  # fmt: skip
    nobody = LogRecord(offset=2, time_ms=TIME_MS, key=b"\0\0\0\1", value=b"\0" * 6,
                       is_control=True, batch=2)  # fmt: skip
    assert outcomes(pending, other, nobody) == [("pending", None)]


def test_a_tombstone_removes_what_is_committed_and_what_is_pending() -> None:
    records = [commit(0, 4), commit(1, 5, producer_id=PRODUCER), removal(2),
               commit(3, 6, partition=1, producer_id=PRODUCER), marker(4, commit=True)]  # fmt: skip
    assert outcomes(*records) == [
        ("committed", None), ("removed", 2), ("tombstone", None), ("committed", 4)]  # fmt: skip
    timelines = fold_group_log(records, 0).timelines
    assert [(one.partition, [offset for _, offset, _ in one.offsets]) for one in timelines] == [
        (0, [4, -1]), (1, [6])]  # fmt: skip
    other = [commit(0, 5, producer_id=PRODUCER), removal(1, partition=1), removal(2, group="h")]
    assert outcomes(*other)[0] == ("pending", None)


def test_columns_of_a_commit() -> None:
    value = commit_value(5, TIME_MS + 9, leader_epoch=2, topic_id=TOPIC_ID)
    expiring = commit_value(6, TIME_MS + 9, expire_timestamp=TIME_MS + 99)
    found = fold_group_log([record(40, commit_key(), value), record(41, commit_key(), expiring)], 3)
    first, second = found.commits.to_pylist()
    assert found.commits.schema == COMMITS
    assert (first["leader_epoch"], first["topic_id"], first["expire_ts"]) == (2, TOPIC_TEXT, None)
    assert (second["leader_epoch"], second["topic_id"]) == (None, None)
    assert second["expire_ts"].timestamp() * 1000 == TIME_MS + 99
    assert first["commit_ts"].timestamp() * 1000 == TIME_MS + 9
    assert first["log_ts"].timestamp() * 1000 == TIME_MS + 40
    assert (first["log_partition"], first["log_offset"]) == (3, 40)


def test_a_time_that_does_not_fit_is_not_known() -> None:
    big = (1 << 63) - 1
    (row,) = fold_group_log([record(0, commit_key(), commit_value(5, big))], 0).commits.to_pylist()
    assert row["commit_ts"] is None
    none = commit_value(5, -1)
    found = fold_group_log([record(3, commit_key(), none)], 0)
    assert found.commits.to_pylist()[0]["commit_ts"] is None
    assert found.timelines[0].offsets == [(TIME_MS + 3, 5, None)]  # the time of the record
    row = dict.fromkeys(COMMITS.names) | {"log_ts": -(1 << 62)}
    assert table_of([row], COMMITS).to_pylist() == [dict.fromkeys(COMMITS.names)]


def test_what_a_log_without_times_says_has_no_timeline() -> None:
    one = commit(0, 5)
    timeless = LogRecord(offset=0, time_ms=None, key=one.key, value=None)
    found = fold_group_log([timeless], 0)
    assert found.timelines == []
    assert found.counts.last_ms is None
    assert found.groups.to_pylist()[0]["last_ts"] is None


def test_records_that_cannot_be_read_are_named_and_passed_over() -> None:
    cut = LogRecord(offset=1, time_ms=TIME_MS, key=b"\0\1\0\1", value=b"", batch=1)
    keyless = LogRecord(offset=2, time_ms=TIME_MS, key=None, value=b"", batch=2)
    unknown = LogRecord(offset=3, time_ms=TIME_MS, key=b"\0\x63", value=b"", batch=3)
    odd = LogRecord(offset=4, time_ms=TIME_MS, key=b"", value=b"", producer_id=PRODUCER,
                    is_control=True, batch=4)  # fmt: skip
    found = fold_group_log([cut, keyless, unknown, odd, commit(5, 6)], 0)
    assert [one.offset for one in found.counts.refused] == [1, 2, 4]
    assert "no key" in found.counts.refused[1].reason
    assert found.counts.undeclared == {"key type 99": 1}
    assert (found.counts.records, found.commits.num_rows) == (5, 1)
    many = fold_group_log([keyless] * (REFUSED_MAX + 5), 0).counts
    assert (many.refused_count, len(many.refused)) == (REFUSED_MAX + 5, REFUSED_MAX)


def test_the_newest_time_is_kept() -> None:
    assert fold_group_log([commit(5, 1), commit(3, 2)], 0).counts.last_ms == TIME_MS + 5


def members_of(found: GroupLog) -> list[tuple[Any, ...]]:
    rows = sorted(found.members.to_pylist(), key=lambda row: row["valid_from_offset"])
    return [(row["member_id"], row["epoch"], row["valid_from_offset"], row["valid_to_offset"])
            for row in rows]  # fmt: skip


def test_generations_of_a_classic_group() -> None:
    assignment = assignment_bytes({"orders": (1, 0), "a": (2,)}, 3)
    one, two = member("one", assignment=assignment, instance="i"), member("two")
    found = fold_group_log(
        [generation(0, 0), generation(1, 1, [one]), generation(2, 2, [one, two]),
         generation(3, 2, [one, two], current_state_timestamp=5), generation(4, 2, [two]),
         generation(5, 3)], 3,
    )  # fmt: skip
    rows = found.rebalances.to_pylist()
    assert [(row["epoch"], row["log_offset"], row["joined"], row["departed"]) for row in rows] == [
        (0, 0, [], []), (1, 1, ["one"], []), (2, 2, ["two"], []), (2, 4, [], ["one"]),
        (3, 5, [], ["two"])]  # fmt: skip
    assert all(row["settled_offset"] == row["log_offset"] for row in rows)
    assert members_of(found) == [("one", 1, 1, 2), ("one", 2, 2, 4), ("two", 2, 2, 5)]
    first = found.members.to_pylist()[0]
    assert first["instance_id"] == "i"
    assert first["subscribed_topics"] is None  # its bytes are no subscription
    (group,) = found.groups.to_pylist()
    assert (group["state"], group["protocol"], group["epoch"], group["members"]) == (
        "Empty", "classic", 3, 0)  # fmt: skip


def test_bytes_of_a_classic_member() -> None:
    subscription = b"\0\0" + b"\0\0\0\1" + b"\0\6orders" + b"\xff\xff\xff\xff"
    assignment = assignment_bytes({"orders": (1, 0), "a": (2,)}, 0)
    one = member("one", subscription, assignment)
    (row,) = fold_group_log([generation(0, 1, [one])], 0).members.to_pylist()
    assert row["subscribed_topics"] == ["orders"]
    assert row["assigned"] == [
        {"topic": "a", "topic_id": None, "partitions": [2]},
        {"topic": "orders", "topic_id": None, "partitions": [0, 1]},
    ]
    assert (row["valid_to_offset"], row["valid_to_ts"]) == (None, None)
    (row,) = fold_group_log(
        [generation(0, 1, [one], protocol_type="connect")], 0
    ).members.to_pylist()
    assert (row["subscribed_topics"], row["assigned"]) == (None, None)


def test_a_deleted_group_is_dead_and_its_members_are_gone() -> None:
    gone = record(1, GroupMetadataKey(group="g"), None)
    found = fold_group_log([generation(0, 1, [member("one")]), gone], 0)
    assert members_of(found) == [("one", 1, 0, 1)]
    (group,) = found.groups.to_pylist()
    assert (group["state"], group["protocol"], group["log_offset"]) == ("Dead", None, 1)
    stable = fold_group_log([generation(0, 1, [member("one")])], 0).groups.to_pylist()[0]
    assert (stable["state"], stable["protocol_type"], stable["members"]) == (
        "Stable", "consumer", 1)  # fmt: skip


def test_a_group_that_only_commits() -> None:
    (group,) = fold_group_log([commit(0, 5), commit(1, 6, partition=1)], 3).groups.to_pylist()
    assert (group["state"], group["protocol"], group["committed_partitions"]) == (
        "Empty", "simple", 2)  # fmt: skip
    assert group["last_commit_ts"].timestamp() * 1000 == TIME_MS + 1
    pending = fold_group_log([commit(0, 5, producer_id=PRODUCER)], 3).groups.to_pylist()[0]
    assert (pending["state"], pending["last_commit_ts"]) == ("Empty", None)
    (removed,) = fold_group_log([commit(0, 5), removal(1)], 3).groups.to_pylist()
    assert (removed["state"], removed["protocol"]) == ("Dead", "simple")


def joined(at: int, name: str, epoch: int, partitions: tuple[int, ...]) -> list[LogRecord]:
    """The batch in which a member joins a consumer group and gets partitions."""
    target = TargetPartitions(topic_id=TOPIC_ID, partitions=partitions)
    records = [
        (ConsumerGroupMemberMetadataKey(group_id="g", member_id=name),
         ConsumerGroupMemberMetadataValue(
             instance_id=None, rack_id="r", client_id="c", client_host="/h",
             subscribed_topic_names=("orders",), subscribed_topic_regex=None,
             server_assignor="range", classic_member_metadata=None)),
        (ConsumerGroupMetadataKey(group_id="g"), ConsumerGroupMetadataValue(epoch=epoch)),
        (ConsumerGroupTargetAssignmentMemberKey(group_id="g", member_id=name),
         ConsumerGroupTargetAssignmentMemberValue(topic_partitions=(target,))),
        (ConsumerGroupTargetAssignmentMetadataKey(group_id="g"),
         ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=epoch)),
    ]  # fmt: skip
    return [record(at + n, *one, batch_offset=at) for n, one in enumerate(records)]


def current(at: int, name: str, epoch: int, partitions: tuple[int, ...], state: int = 0) -> Any:
    key = ConsumerGroupCurrentMemberAssignmentKey(group_id="g", member_id=name)
    assigned = AssignedPartitions(
        topic_id=TOPIC_ID, partitions=partitions, assignment_epochs=(epoch,) * len(partitions)
    )
    value = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=epoch, previous_member_epoch=epoch - 1, state=state,
        assigned_partitions=(assigned,), partitions_pending_revocation=(),
    )  # fmt: skip
    return record(at, key, value)


def test_an_epoch_is_settled_when_every_member_has_reached_it() -> None:
    records = [*joined(0, "one", 2, (0, 1)), current(4, "one", 2, (0, 1)),
               *joined(5, "two", 3, (1,)), current(9, "two", 2, ()),
               current(10, "one", 3, (0,)), current(11, "two", 3, (1,), state=2)]  # fmt: skip
    rows = fold_group_log(records, 3).rebalances.to_pylist()
    assert [(row["epoch"], row["log_offset"], row["settled_offset"], row["members"])
            for row in rows] == [(2, 3, 4, 1), (3, 8, None, 2)]  # fmt: skip
    done = [*records, current(12, "two", 3, (1,))]
    found = fold_group_log(done, 3)
    last = found.rebalances.to_pylist()[-1]
    assert (last["settled_offset"], last["joined"], last["assignor"]) == (12, ["two"], "range")
    assert fold_group_log([*done, current(13, "two", 3, (1,))], 3).rebalances == found.rebalances
    assert found.groups.to_pylist()[0]["state"] == "Stable"
    assert found.groups.to_pylist()[0]["protocol"] == "consumer"


def test_a_member_that_takes_the_place_of_another_is_no_epoch() -> None:
    key = ConsumerGroupMemberMetadataKey(group_id="g", member_id="two")
    value = ConsumerGroupMemberMetadataValue(
        instance_id="i", rack_id=None, client_id="c", client_host="/h", subscribed_topic_names=(),
        subscribed_topic_regex=None, server_assignor=None, classic_member_metadata=None,
    )  # fmt: skip
    found = fold_group_log([*joined(0, "one", 2, (0,)), record(4, key, value)], 3)
    assert [row["epoch"] for row in found.rebalances.to_pylist()] == [2]
    assert found.groups.to_pylist()[0]["members"] == 2


def test_records_of_one_batch_are_one_state_of_a_member() -> None:
    records = [*joined(0, "one", 2, (0, 1)), current(4, "one", 2, (0, 1))]
    found = fold_group_log(records, 3, {TOPIC_TEXT: "orders"})
    assert members_of(found) == [("one", 0, 3, 4), ("one", 2, 4, None)]
    row = found.members.to_pylist()[-1]
    wanted = [{"topic": "orders", "topic_id": TOPIC_TEXT, "partitions": [0, 1]}]
    assert row["assigned"] == row["target"] == wanted
    assert (row["state"], row["assignor"], row["rack_id"]) == ("stable", "range", "r")
    assert row["revoking"] == []


def test_a_topic_gets_its_name_from_a_commit_too() -> None:
    named = record(5, commit_key(), commit_value(1, TIME_MS, topic_id=TOPIC_ID))
    found = fold_group_log([*joined(0, "one", 2, (0,)), current(4, "one", 2, (0,)), named], 3)
    for row in found.members.to_pylist():
        assert {one["topic"] for one in row["target"]} == {"orders"}
    unknown = fold_group_log([*joined(0, "one", 2, (0,))], 3).members.to_pylist()[0]
    assert unknown["target"][0]["topic"] is None


def test_a_classic_group_that_becomes_a_consumer_group() -> None:
    gone = record(1, GroupMetadataKey(group="g"), None, batch_offset=2)
    records = [generation(0, 7, [member("one")]), gone, *joined(2, "one", 7, (0,))]
    found = fold_group_log(records, 3)
    rows = [(row["protocol"], row["epoch"]) for row in found.rebalances.to_pylist()]
    assert rows == [("classic", 7), ("consumer", 7)]


def test_transactions_of_an_id() -> None:
    found = fold_transaction_log(
        [transaction(0, 0, start_ms=-1, partitions=None),
         transaction(1, 1, start_ms=TIME_MS + 1), transaction(2, 1, start_ms=TIME_MS + 1,
                                                              partitions=(1, 0)),
         transaction(3, 2, start_ms=TIME_MS + 1, partitions=(1, 0), producer_epoch=1),
         transaction(4, 4, start_ms=TIME_MS + 1, partitions=()),
         transaction(5, 1, start_ms=TIME_MS + 5)], 3,
    )  # fmt: skip
    first, second = found.transactions.to_pylist()
    assert first["partitions"] == [{"topic": "orders", "topic_id": None, "partitions": [0, 1]}]
    assert (first["state"], first["producer_epoch"]) == ("CompleteCommit", 0)
    times = [first[name].timestamp() * 1000 - TIME_MS
             for name in ("start_ts", "prepared_ts", "completed_ts", "last_update_ts")]  # fmt: skip
    assert times == [1, 3, 4, 4]
    assert (first["first_log_offset"], first["last_log_offset"]) == (1, 4)
    assert (second["state"], second["completed_ts"], second["log_partition"]) == (
        "Ongoing",
        None,
        3,
    )
    (state,) = found.ids
    assert (state.is_open, state.is_prepared, state.partitions) == (
        True, False, frozenset({("orders", 0)}))  # fmt: skip


def test_an_id_that_is_initialized_anew_or_expires() -> None:
    again = [transaction(0, 1), transaction(1, 0, start_ms=-1, partitions=None), transaction(2, 1)]
    assert fold_transaction_log(again, 0).transactions.num_rows == 2
    gone = record(1, TransactionLogKey(transactional_id="tx"), None)
    found = fold_transaction_log([transaction(0, 4), gone], 0)
    assert (found.transactions.num_rows, found.ids) == (1, [])
    found = fold_transaction_log([transaction(0, 4), gone, transaction(2, 4)], 0)
    assert (found.transactions.num_rows, len(found.ids)) == (2, 1)
    (state,) = fold_transaction_log([transaction(0, 0, start_ms=-1, partitions=None)], 0).ids
    assert (state.partitions, state.start_ms, state.is_open) == (frozenset(), None, False)
    old = fold_transaction_log([transaction(0, 1, start_ms=0)], 0)  # as old as can be
    assert (old.transactions.num_rows, old.ids[0].start_ms) == (1, 0)


def test_odd_records_of_a_transaction_log() -> None:
    cut = LogRecord(offset=1, time_ms=TIME_MS, key=b"\0\0\0", value=b"")
    unknown = LogRecord(offset=2, time_ms=TIME_MS, key=b"\0\5", value=b"")
    found = fold_transaction_log(
        [cut, unknown, marker(3, commit=True), transaction(4, 99), transaction(5, 3, name="u")], 0
    )
    assert [one.offset for one in found.counts.refused] == [1]
    assert found.counts.undeclared == {"key type 5": 1}
    assert found.counts.records == 5
    assert [(one.state, one.is_open, one.is_prepared) for one in found.ids] == [
        ("Unknown(99)", False, False), ("PrepareAbort", True, True)]  # fmt: skip
