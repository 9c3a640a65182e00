"""Figures of the coordinators of a broker: what they have and did."""

import math

import msgspec
import pytest

from broker.coordinators import coordinator as coordinator_module
from broker.coordinators import loading
from broker.coordinators.figures import LOADS_MS, GroupFigures, LoadTimes, TransactionFigures
from coordinator.group.classic.states import ClassicGroupState
from coordinator.group.consumer.group import GroupState
from coordinator.group.counts import GroupCounts
from coordinator.records.kinds import TRANSACTION_STATE
from coordinator.runtime.shard import Shard, ShardState
from coordinator.runtime.shards import partition_for
from coordinator.runtime.write import Write
from coordinator.transaction.metadata import TransactionMetadata, record_of
from coordinator.transaction.states import OPEN, TransactionState
from metadata.features import GROUP_VERSION
from metadata.records import FeatureLevelRecord
from network.turn_budget import TURN_UNITS_MAX
from tests.broker.coordinators.coordinated import OFFSETS, PARTITIONS, commit_body
from tests.broker.coordinators.test_classic_apis import CONFIG as CLASSIC_CONFIG
from tests.broker.coordinators.test_consumer_group_apis import CONFIG, Consumers
from wire.api_keys import OFFSET_COMMIT
from wire.types import TopicId

CLASSIC, CONSUMER, S = ClassicGroupState, GroupState, TransactionState


def started() -> Consumers:
    """Groups of both protocols; a rebalance of a classic one begins at once."""
    config = msgspec.structs.replace(CONFIG, classic=CLASSIC_CONFIG.classic)
    broker = Consumers(groups=config)
    broker.metadata.write(FeatureLevelRecord(name=GROUP_VERSION, feature_level=1))
    broker.offsets()
    return broker


def groups_of(broker: Consumers) -> GroupFigures:
    return broker.broker.counts().groups


def test_loads_of_the_last_minute() -> None:
    times = LoadTimes()
    assert all(map(math.isnan, times.average_and_max_ms(0)))
    times.add(30, 100)
    times.add(10, 200)
    assert times.average_and_max_ms(100 + LOADS_MS - 1) == (20, 30)
    assert times.average_and_max_ms(100 + LOADS_MS) == (10, 10)
    assert all(map(math.isnan, times.average_and_max_ms(200 + LOADS_MS)))


def test_groups_by_protocol_and_state_with_their_counts() -> None:
    broker = started()
    member_id = broker.stable("c1")
    broker.connection_id = 2
    told = broker.join(group_id="c2")
    broker.join(told.member_id, group_id="c2")
    broker.connection_id = 1
    assert (
        broker.ask(OFFSET_COMMIT, 9, commit_body({"a": [(0, 3), (1, 4)]}, 9, group="s")) is not None
    )
    epoch = broker.beat("m", group_id="k").member_epoch
    figures = groups_of(broker)
    assert figures.numbers.offsets == 2
    assert figures.numbers.classic == {
        CLASSIC.EMPTY: 1,
        CLASSIC.PREPARING_REBALANCE: 0,
        CLASSIC.COMPLETING_REBALANCE: 1,
        CLASSIC.STABLE: 1,
        CLASSIC.DEAD: 0,
    }
    assert figures.numbers.consumer == {
        CONSUMER.EMPTY: 0,
        CONSUMER.ASSIGNING: 0,
        CONSUMER.RECONCILING: 0,
        CONSUMER.STABLE: 1,
    }
    assert figures.counts == GroupCounts(
        offset_commits=2, completed_rebalances=1, consumer_rebalances=1
    )
    broker.leave(member_id, group_id="c1")
    broker.beat("m", epoch, group_id="k", subscribed_topic_names=("b",))
    broker.beat("n", group_id="r", subscribed_topic_regex="a|b", subscribed_topic_names=None)
    for _ in range(5):
        broker.pass_ms(1)
    broker.beat("n", -1, group_id="r")
    found = groups_of(broker)
    assert found.numbers.classic[CLASSIC.EMPTY] == 2
    assert found.numbers.consumer[CONSUMER.EMPTY] == 1
    assert found.counts.consumer_rebalances == 3, "one by what the regex matches; none by a leave"
    assert figures.counts.consumer_rebalances == 1, "it was a copy"


def test_partitions_by_state_and_the_time_to_load_them(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = started()
    assert broker.ask(OFFSET_COMMIT, 9, commit_body({"a": [(0, 3)]}, 9)) is not None
    shards = groups_of(broker).shards
    assert (shards.states, shards.load_ms_average) == ({ShardState.ACTIVE: PARTITIONS}, 0)
    lead(broker, 2)
    broker.settle()
    assert groups_of(broker).shards.states == {}
    monkeypatch.setattr(loading, "READ_UNITS", TURN_UNITS_MAX)
    lead(broker, 1)
    assert groups_of(broker).shards.states[ShardState.LOADING] > 0
    broker.now_ms += 40
    broker.settle()
    shards = groups_of(broker).shards
    assert (shards.states, shards.load_ms_max) == ({ShardState.ACTIVE: PARTITIONS}, 40)
    assert 0 < shards.load_ms_average < 40, "of all loads"


def lead(broker: Consumers, node_id: int) -> None:
    """Make a broker the leader of all partitions."""
    for number in range(PARTITIONS):
        broker.metadata.change(number, OFFSETS, leader=node_id, isr=(node_id,))
    broker.publish()


def test_more_groups_than_a_look_counts_are_counted_over_several(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker = started()
    for partition in range(PARTITIONS):
        names = [f"s{n}" for n in range(99) if partition_for(f"s{n}", PARTITIONS) == partition]
        for name in names[:4]:
            assert broker.ask(OFFSET_COMMIT, 9, commit_body({"a": [(0, 3)]}, 9, group=name))
    monkeypatch.setattr(coordinator_module, "LOOK_UNITS", 2)
    found = [groups_of(broker).numbers.classic[CLASSIC.EMPTY] for _ in range(8)]
    assert found == [0, 0, 4, 4, 8, 8, 12, 12], "a partition of four takes two looks"


def test_transactional_ids_and_open_transactions() -> None:
    broker = started()
    broker.metadata.topic(TRANSACTION_STATE, TopicId(b"x" * 16), partitions=2)
    broker.publish()
    for _ in range(9):
        broker.pass_ms(1)
    found = transactions_of(broker)
    assert found.shards.states == {ShardState.ACTIVE: 2}
    assert found.open == dict.fromkeys(OPEN, 0)
    for number, state in enumerate((S.ONGOING, S.ONGOING, S.EMPTY)):
        shard = broker.broker._transactions.coordinator.of_partition(number % 2)
        assert isinstance(shard, Shard)
        metadata = TransactionMetadata(
            producer_id=number,
            producer_epoch=0,
            timeout_ms=60_000,
            state=state,
            partitions=frozenset() if state is S.EMPTY else frozenset({("a", 0)}),
            start_ms=None if state is S.EMPTY else broker.now_ms,
            last_update_ms=broker.now_ms,
        )
        record = record_of(f"x{number}", metadata, 0)
        shard.write(lambda _, record=record: Write(records=(record,), response=None), print)
        broker.pass_ms(1)
    found = transactions_of(broker)
    assert (found.ids, found.unknown_destinations, found.append_retries) == (3, 0, 0)
    assert found.open == {S.ONGOING: 2, S.PREPARE_COMMIT: 0, S.PREPARE_ABORT: 0}


def transactions_of(broker: Consumers) -> TransactionFigures:
    return broker.broker.counts().transactions
