"""Kafka's configs that bound groups, members, offsets and transactions, each at a whole broker.

A row has the text of server.properties, what is done up to the bound, and what is refused above it.
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from broker.config import RecordsConfig
from metadata.features import GROUP_VERSION
from metadata.records import FeatureLevelRecord
from node.configs.config import node_config
from node.configs.records_config import records_config
from tests.broker.apis.test_txn_offset_commit import Transactional, offsets_body
from tests.broker.coordinators.test_consumer_group_apis import Consumers
from tests.node.configs.test_config import BROKER
from wire.api_keys import INIT_PRODUCER_ID, LIST_GROUPS, LIST_TRANSACTIONS, TXN_OFFSET_COMMIT
from wire.errors import ErrorCode
from wire.messages import codec
from wire.types import DirectoryId

IDS = dict.fromkeys(("/data/a", "/data/b"), DirectoryId(bytes(15) + b"\1"))
NONE = ErrorCode.none
HOUR_MS = 3_600_000
LEFT_ALONE = "others"
"""A group that is there before, and has to stay as it is."""


def configured(**properties: str) -> RecordsConfig:
    given = {key.replace("_", "."): value for key, value in properties.items()}
    return records_config(node_config({**BROKER, **given}), IDS)


def started(properties: dict[str, str]) -> Consumers:
    broker = Consumers(groups=configured(**properties).groups)
    broker.metadata.write(FeatureLevelRecord(name=GROUP_VERSION, feature_level=1))
    broker.offsets()
    assert broker.commit({"a": [(0, 3)]}, group=LEFT_ALONE) == {"a": {0: NONE}}
    return broker


def join(broker: Consumers, number: int, **fields: Any) -> ErrorCode:
    """The code of a classic member that joins on a connection of its own."""
    broker.connection_id = 1 + number
    answer = broker.join(version=3, **fields)
    code: ErrorCode = NONE if answer is None else answer.error_code
    return code


def with_session(seconds: int) -> Callable[[Consumers], ErrorCode]:
    return lambda broker: join(broker, 0, session_timeout=timedelta(seconds=seconds))


def beat(member_id: str, **fields: Any) -> Callable[[Consumers], ErrorCode]:
    return lambda broker: broker.beat(member_id, **fields).error_code


def commit(metadata: str) -> Callable[[Consumers], ErrorCode]:
    def act(broker: Consumers) -> ErrorCode:
        found = broker.commit({"a": [(0, 5, metadata)]}, group="m")
        assert found is not None
        return found["a"][0]

    return act


FAST = {"group_initial_rebalance_delay_ms": "0"}
ROWS = {
    "group.max.size": (
        {**FAST, "group_max_size": "1"},
        [lambda broker: join(broker, 0)],
        lambda broker: join(broker, 1),
        ErrorCode.group_max_size_reached,
    ),
    "group.min.session.timeout.ms": (
        {**FAST, "group_min_session_timeout_ms": "8000"},
        [with_session(8)],
        with_session(7),
        ErrorCode.invalid_session_timeout,
    ),
    "group.max.session.timeout.ms": (
        {**FAST, "group_max_session_timeout_ms": "9000"},
        [with_session(9)],
        with_session(10),
        ErrorCode.invalid_session_timeout,
    ),
    "group.consumer.max.size": (
        {"group_consumer_max_size": "2"},
        [beat("m"), beat("n")],
        beat("o"),
        ErrorCode.group_max_size_reached,
    ),
    "group.consumer.assignors": (
        {"group_consumer_assignors": "range"},
        [beat("m", server_assignor="range")],
        beat("n", server_assignor="uniform"),
        ErrorCode.unsupported_assignor,
    ),
    "offset.metadata.max.bytes": (
        {"offset_metadata_max_bytes": "3"},
        [commit("abc"), commit("")],
        commit("abcd"),
        ErrorCode.offset_metadata_too_large,
    ),
}


@pytest.mark.parametrize("key", ROWS)
def test_a_bound_is_kept(key: str) -> None:
    properties, up_to, above, code = ROWS[key]
    broker = started(properties)
    assert [act(broker) for act in up_to] == [NONE] * len(up_to)
    assert above(broker) is code
    assert broker.fetch((LEFT_ALONE, {"a": [0]}))[LEFT_ALONE][1]["a"][0][0] == 3


@pytest.mark.parametrize("key", ROWS)
def test_without_the_config_there_is_more_room(key: str) -> None:
    properties, up_to, above, _ = ROWS[key]
    broker = started({name: value for name, value in properties.items() if name in FAST})
    for act in up_to:
        act(broker)
    assert above(broker) is NONE


def test_offsets_go_after_their_retention() -> None:
    """offsets.retention.minutes, offsets.retention.check.interval.ms"""
    broker = started(
        {"offsets_retention_minutes": "60", "offsets_retention_check_interval_ms": "1000"}
    )
    broker.pass_ms(HOUR_MS - 1_000)
    assert broker.fetch((LEFT_ALONE, {"a": [0]}))[LEFT_ALONE][1]["a"][0][0] == 3
    for _ in range(3):
        broker.pass_ms(1_000)
    assert broker.fetch((LEFT_ALONE, {"a": [0]}))[LEFT_ALONE][1]["a"][0][0] == -1
    new: Any = codec.newest(LIST_GROUPS, "request")
    assert broker.ask(LIST_GROUPS, 4, new.ListGroupsRequest()).groups == ()


# ---- transactions ------------------------------------------------------------------------------


def transactional(**properties: str) -> Transactional:
    config = configured(**properties)
    return Transactional(groups=config.groups, transactions=config.transactions)


@pytest.mark.parametrize(
    ("ms", "code", "asked"),
    [
        (1_000, ErrorCode.coordinator_load_in_progress, 1),  # it waits for producer ids
        (1_001, ErrorCode.invalid_transaction_timeout, 0),
    ],
)
def test_a_transaction_may_not_last_longer(ms: int, code: ErrorCode, asked: int) -> None:
    """transaction.max.timeout.ms"""
    broker = transactional(transaction_max_timeout_ms="1000")
    new: Any = codec.newest(INIT_PRODUCER_ID, "request")
    body = new.InitProducerIdRequest(
        transactional_id="x", transaction_timeout=timedelta(milliseconds=ms)
    )
    assert broker.ask(INIT_PRODUCER_ID, 4, body).error_code is code
    assert len(broker.asked()) == asked


def ids_of(broker: Transactional) -> list[str]:
    new: Any = codec.newest(LIST_TRANSACTIONS, "request")
    body = new.ListTransactionsRequest(state_filters=(), producer_id_filters=())
    answer = broker.ask(LIST_TRANSACTIONS, 0, body)
    return [row.transactional_id for row in answer.transaction_states]


def test_an_id_goes_after_its_expiration() -> None:
    """transactional.id.expiration.ms, transaction.remove.expired.transaction.cleanup.interval.ms"""
    interval = "transaction_remove_expired_transaction_cleanup_interval_ms"
    broker = transactional(transactional_id_expiration_ms=str(HOUR_MS), **{interval: "1000"})
    broker.init()
    broker.now_ms += HOUR_MS - 2_000
    broker.turns()
    assert ids_of(broker) == ["x"]
    for _ in range(4):
        broker.now_ms += 1_000
        broker.turns()
    assert ids_of(broker) == []


def test_an_open_transaction_is_aborted_when_its_time_is_over() -> None:
    """transaction.abort.timed.out.transaction.cleanup.interval.ms: its offsets are dropped."""
    interval = "transaction_abort_timed_out_transaction_cleanup_interval_ms"
    broker = transactional(**{interval: "1000"})
    broker.init()
    assert broker.add_offsets() is NONE
    assert broker.send_offsets(7) is NONE
    for passed_ms, code in ((58_000, "unstable_offset_commit"), (4_000, "none")):
        for _ in range(passed_ms // 1_000):
            broker.now_ms += 1_000
            broker.turns()
        found = broker.committed(require_stable=True)["g"][1]["a"][0]
        assert (found[0], found[3]) == (-1, code)


def test_metadata_of_offsets_in_a_transaction_is_bounded_too() -> None:
    """offset.metadata.max.bytes"""
    broker = transactional(offset_metadata_max_bytes="3")
    broker.init()
    broker.add_offsets()
    for metadata, code in (("abc", NONE), ("abcd", ErrorCode.offset_metadata_too_large)):
        body = offsets_body(broker.producer, {"a": (0, 7)}, "g")
        row = replace(body.topics[0].partitions[0], committed_metadata=metadata)
        body = replace(body, topics=(replace(body.topics[0], partitions=(row,)),))
        answer = broker.ask(TXN_OFFSET_COMMIT, 3, body)
        assert answer.topics[0].partitions[0].error_code is code
