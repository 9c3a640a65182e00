"""AddPartitionsToTxn, AddOffsetsToTxn, EndTxn, and the lists of transactional ids."""

from datetime import UTC, datetime

import pytest

from broker.apis.transactions.transaction_lists import DescribeTransactions, ListTransactions
from broker.apis.transactions.transactions import AddOffsetsToTxn, AddPartitionsToTxn, EndTxn
from broker.clients.request_metrics import VERIFICATION
from coordinator.records.kinds import CONSUMER_OFFSETS
from coordinator.runtime.shards import partition_for
from quorum_controller.security.authorization import AccessRules, Operation, ResourceType
from tests.broker.apis.requests import CLUSTER, Broker, call_of
from tests.coordinator.transaction.test_machine import Coordinator
from wire.api_keys import (
    ADD_OFFSETS_TO_TXN,
    ADD_PARTITIONS_TO_TXN,
    DESCRIBE_TRANSACTIONS,
    END_TXN,
    LIST_TRANSACTIONS,
)
from wire.errors import ErrorCode
from wire.messages import codec
from wire.messages.codec import entity_class

CODE = ErrorCode
NONE = CODE.none
DENIED_ID = CODE.transactional_id_authorization_failed
ID = ResourceType.TRANSACTIONAL_ID


class Asked:
    """Broker 1, which coordinates all ids; x has producer 70 with epoch 0."""

    def __init__(self, rules=None, version=2):
        self.broker = Broker("a", "b", CONSUMER_OFFSETS, rules=rules)
        self.coordinator = Coordinator(version)
        requests, access, image = (
            self.coordinator.coordinator, self.broker.access, self.broker.image,
        )  # fmt: skip
        self.loading_count = 0
        self.handlers = {
            ADD_PARTITIONS_TO_TXN: AddPartitionsToTxn(requests, access, image),
            ADD_OFFSETS_TO_TXN: AddOffsetsToTxn(requests, access, image),
            END_TXN: EndTxn(requests, access),
            DESCRIBE_TRANSACTIONS: DescribeTransactions(requests, access),
            LIST_TRANSACTIONS: ListTransactions(self, access, self.coordinator.clock),
        }
        self.coordinator.init()
        self.coordinator.commit()

    def active(self):
        """The shards, as of `Transactions`."""
        return [self.coordinator.shard]

    def ask(self, api_key, version, body):
        """The answer, and whether it came before the commit."""
        answers = []
        call = call_of(api_key, version, body, answers)
        self.handlers[api_key].serve(call)
        self.kind = call.kind
        is_early = bool(answers)
        self.coordinator.log.commit(self.coordinator.shard)
        (answer,) = answers
        return answer, is_early

    def add(self, version=5, *, partitions=(("a", 0),), epoch=0, verify_only=False, names=("x",)):
        """Codes by id and partition."""
        rows = {}
        for topic, number in partitions:
            rows.setdefault(topic, []).append(number)
        if version < 4:
            new = codec._module(ADD_PARTITIONS_TO_TXN, version, "request")
            body = new.AddPartitionsToTxnRequest(
                v3_and_below_transactional_id="x",
                v3_and_below_producer_id=70,
                v3_and_below_producer_epoch=epoch,
                v3_and_below_topics=tuple(
                    new.AddPartitionsToTxnTopic(name=topic, partitions=tuple(numbers))
                    for topic, numbers in rows.items()
                ),
            )
        else:
            new = codec.newest(ADD_PARTITIONS_TO_TXN, "request")
            body = new.AddPartitionsToTxnRequest(
                transactions=tuple(
                    new.AddPartitionsToTxnTransaction(
                        transactional_id=name,
                        producer_id=70,
                        producer_epoch=epoch,
                        verify_only=verify_only,
                        topics=tuple(
                            new.AddPartitionsToTxnTopic(name=topic, partitions=tuple(numbers))
                            for topic, numbers in rows.items()
                        ),
                    )
                    for name in names
                )
            )
        answer, is_early = self.ask(ADD_PARTITIONS_TO_TXN, version, body)
        if version >= 4 and answer.error_code is not NONE:
            return answer.error_code
        results = (
            [("x", answer.results_by_topic_v3_and_below)]
            if version < 4
            else [(str(row.transactional_id), row.topic_results) for row in
                  answer.results_by_transaction]
        )  # fmt: skip
        self.is_early = is_early
        return {
            (name, str(topic.name), row.partition_index): row.partition_error_code
            for name, topics in results
            for topic in topics
            for row in topic.results_by_partition
        }

    def end(self, version=5, *, is_commit=True, epoch=0):
        new = codec.newest(END_TXN, "request")
        body = new.EndTxnRequest(
            transactional_id="x", producer_id=70, producer_epoch=epoch, committed=is_commit
        )
        answer, is_early = self.ask(END_TXN, version, body)
        return is_early, answer.error_code, answer.producer_id, answer.producer_epoch

    def add_offsets(self, version=4, *, epoch=0, group="g"):
        new = codec.newest(ADD_OFFSETS_TO_TXN, "request")
        body = new.AddOffsetsToTxnRequest(
            transactional_id="x", producer_id=70, producer_epoch=epoch, group_id=group
        )
        return self.ask(ADD_OFFSETS_TO_TXN, version, body)[0].error_code

    def partitions(self):
        return set(self.coordinator.shard.committed.transactions["x"].partitions)


@pytest.fixture(autouse=True)
def decoded(monkeypatch):
    """Answers of AddPartitionsToTxn in the class of their version, which the newest lacks."""
    decode = codec.decode_response

    def as_sent(api_key, version, frame):
        if api_key != ADD_PARTITIONS_TO_TXN or version >= 4:
            return decode(api_key, version, frame)
        from kio.serial import entity_reader

        entity = entity_class(api_key, version, "response")
        body, _ = entity_reader(entity)(frame, 5 if version >= 3 else 4)
        return int.from_bytes(frame[:4], "big"), body

    encode = codec.encode_request

    def encoded(api_key, version, number, client_id, body):
        if api_key != ADD_PARTITIONS_TO_TXN or version >= 4:
            return encode(api_key, version, number, client_id, body)
        import io

        from kio.serial import entity_writer

        from wire.connections.headers import RequestHeader, encode_request_header

        out = io.BytesIO()
        entity_writer(type(body))(out, body)
        header = RequestHeader(api_key, version, number, client_id)
        return encode_request_header(header, is_flexible=version >= 3) + out.getvalue()

    monkeypatch.setattr(codec, "decode_response", as_sent)
    monkeypatch.setattr(codec, "encode_request", encoded)


# ---- AddPartitionsToTxn ------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(6))
def test_partitions_are_added_in_every_version(version):
    asked = Asked()
    found = asked.add(version, partitions=(("a", 0), ("b", 3)))
    assert found == {("x", "a", 0): NONE, ("x", "b", 3): NONE}
    assert not asked.is_early, "it is answered when it is committed"
    assert asked.partitions() == {("a", 0), ("b", 3)}
    metadata = asked.coordinator.shard.committed.transactions["x"]
    assert metadata.client_version == (2 if version >= 4 else 0)


@pytest.mark.parametrize("version", range(6))
def test_a_fenced_producer_is_told_in_words_that_it_knows(version):
    asked = Asked()
    known = CODE.producer_fenced if version >= 2 else CODE.invalid_producer_epoch
    assert asked.add(version, epoch=3) == {("x", "a", 0): known}


@pytest.mark.parametrize("version", [3, 5])
def test_one_unknown_partition_and_none_is_added(version):
    asked = Asked()
    found = asked.add(version, partitions=(("a", 0), ("a", 9), ("c", 0)))
    unknown = CODE.unknown_topic_or_partition
    assert found == {
        ("x", "a", 0): CODE.operation_not_attempted,
        ("x", "a", 9): unknown,
        ("x", "c", 0): unknown,
    }
    assert asked.partitions() == set()


def test_brokers_ask_for_several_ids_and_may_only_verify():
    asked = Asked()
    mapping = CODE.invalid_producer_id_mapping
    assert asked.add(names=("x", "y")) == {("x", "a", 0): NONE, ("y", "a", 0): mapping}
    assert asked.kind == ADD_PARTITIONS_TO_TXN
    found = asked.add(partitions=(("a", 0), ("a", 1)), verify_only=True)
    assert found == {("x", "a", 0): NONE, ("x", "a", 1): CODE.transaction_abortable}
    assert asked.kind == VERIFICATION
    assert asked.partitions() == {("a", 0)}
    assert asked.add(names=()) == {}


def test_clients_need_the_id_and_the_topics():
    asked = Asked(AccessRules())
    both = (("a", 0), ("b", 0), (CONSUMER_OFFSETS, 0))
    denied, skipped = CODE.topic_authorization_failed, CODE.operation_not_attempted
    assert set(asked.add(3, partitions=both).values()) == {DENIED_ID}
    asked.broker.allow(Operation.WRITE, "x", ID)
    asked.broker.allow(Operation.WRITE, "a")
    assert list(asked.add(3, partitions=both).values()) == [skipped, denied, denied]
    assert asked.add(3) == {("x", "a", 0): NONE}


def test_brokers_need_cluster_action_alone():
    asked = Asked(AccessRules())
    assert asked.add() is CODE.cluster_authorization_failed
    asked.broker.allow(*CLUSTER)
    assert asked.add(partitions=(("a", 0), (CONSUMER_OFFSETS, 1))) == {
        ("x", "a", 0): NONE,
        ("x", CONSUMER_OFFSETS, 1): NONE,
    }


# ---- AddOffsetsToTxn ---------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(5))
def test_the_partition_of_a_group_is_added(version):
    asked = Asked()
    assert asked.add_offsets(version) is NONE
    assert asked.partitions() == {(CONSUMER_OFFSETS, partition_for("g", 4))}
    assert asked.coordinator.shard.committed.transactions["x"].client_version == 0
    known = CODE.producer_fenced if version >= 2 else CODE.invalid_producer_epoch
    assert asked.add_offsets(version, epoch=5) is known


def test_offsets_need_the_id_and_the_group():
    asked = Asked(AccessRules())
    assert asked.add_offsets() is DENIED_ID
    asked.broker.allow(Operation.WRITE, "x", ID)
    assert asked.add_offsets() is CODE.group_authorization_failed
    asked.broker.allow(Operation.READ, "g", ResourceType.GROUP)
    assert asked.add_offsets() is NONE


def test_without_the_topic_of_offsets_there_is_no_group_yet():
    asked = Asked()
    asked.broker = Broker("a")
    asked.handlers[ADD_OFFSETS_TO_TXN] = AddOffsetsToTxn(
        asked.coordinator.coordinator, asked.broker.access, asked.broker.image
    )
    assert asked.add_offsets() is CODE.coordinator_not_available


# ---- EndTxn ------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(6))
@pytest.mark.parametrize("is_commit", [True, False])
def test_an_end_is_answered_when_it_is_committed(version, is_commit):
    asked = Asked()
    asked.add()
    epoch = 1 if version >= 5 else -1
    found = asked.end(version, is_commit=is_commit)
    assert found == (False, NONE, 70 if version >= 5 else -1, epoch)
    ((ending, _, _),) = asked.coordinator.sent.begun
    assert (ending.is_commit, ending.transaction_version) == (is_commit, 2 if version >= 5 else 0)
    fenced = CODE.producer_fenced if version >= 2 else CODE.invalid_producer_epoch
    known = CODE.concurrent_transactions if version >= 5 else fenced
    assert asked.end(version, epoch=7)[1] is known


def test_an_end_needs_the_id():
    asked = Asked(AccessRules())
    assert asked.end() == (True, DENIED_ID, -1, -1)
    asked.broker.allow(Operation.WRITE, "x", ID)
    assert asked.end()[1] is CODE.invalid_txn_state


# ---- descriptions and lists --------------------------------------------------------------------


def described(asked, *names):
    new = codec.newest(DESCRIBE_TRANSACTIONS, "request")
    body = new.DescribeTransactionsRequest(transactional_ids=names)
    return asked.ask(DESCRIBE_TRANSACTIONS, 0, body)[0].transaction_states


def test_a_description_has_the_partitions_that_the_caller_may_see():
    asked = Asked(AccessRules())
    asked.coordinator.add(("b", 1), ("a", 2), ("a", 0))
    asked.coordinator.commit()
    assert [row.error_code for row in described(asked, "x")] == [DENIED_ID]
    asked.broker.allow(Operation.DESCRIBE, "*", ID)
    asked.broker.allow(Operation.DESCRIBE, "a")
    row, unknown, empty = described(asked, "x", "y", "")
    assert (unknown.error_code, empty.error_code) == (
        CODE.transactional_id_not_found, CODE.invalid_request,
    )  # fmt: skip
    assert (row.error_code, str(row.transactional_id), row.transaction_state) == (
        NONE, "x", "Ongoing",
    )  # fmt: skip
    assert (row.producer_id, row.producer_epoch) == (70, 0)
    assert row.transaction_timeout.total_seconds() == 0.5
    assert row.transaction_start_time == datetime(1970, 1, 1, 0, 16, 40, tzinfo=UTC)
    assert [(str(topic.topic), topic.partitions) for topic in row.topics] == [("a", (0, 2))]


def test_an_id_without_a_transaction_has_no_start():
    asked = Asked()
    new = codec.newest(DESCRIBE_TRANSACTIONS, "request")
    parts = []
    call = call_of(
        DESCRIBE_TRANSACTIONS, 0, new.DescribeTransactionsRequest(transactional_ids=("x",)), []
    )
    call._respond = lambda found, _: parts.extend(found)
    asked.handlers[DESCRIBE_TRANSACTIONS].serve(call)
    found = b"".join(parts)
    assert b"\x06Empty" in found
    assert (-1).to_bytes(8, "big", signed=True) in found, "kio does not read it, Java does"


def names_of(asked, version=2, **filters):
    new = codec.newest(LIST_TRANSACTIONS, "request")
    given = {"state_filters": (), "producer_id_filters": ()} | filters
    answer, _ = asked.ask(LIST_TRANSACTIONS, version, new.ListTransactionsRequest(**given))
    assert answer.error_code is NONE, f"{answer.error_code=}"
    rows = [(str(row.transactional_id), row.producer_id, row.transaction_state)
            for row in answer.transaction_states]  # fmt: skip
    return rows, tuple(map(str, answer.unknown_state_filters))


X, Y, Z = ("x", 70, "Ongoing"), ("y", 71, "Empty"), ("zx", 72, "Ongoing")


@pytest.fixture
def three():
    asked = Asked()
    asked.coordinator.init("y")
    asked.coordinator.init("zx")
    asked.coordinator.add()
    asked.coordinator.commit()
    asked.coordinator.advance(50)
    asked.coordinator.add(name="zx", producer_id=72)
    asked.coordinator.commit()
    return asked


@pytest.mark.parametrize(
    ("filters", "rows", "unknown"),
    [
        ({}, [X, Y, Z], ()),
        ({"state_filters": ("Ongoing",)}, [X, Z], ()),
        ({"state_filters": ("Ongoing", "Odd", "Bad")}, [X, Z], ("Bad", "Odd")),
        ({"state_filters": ("ongoing",)}, [], ("ongoing",)),
        ({"producer_id_filters": (70, 71)}, [X, Y], ()),
        ({"producer_id_filters": (70, 71), "state_filters": ("Empty",)}, [Y], ()),
        ({"duration_filter": 0}, [X, Y], ()),
        ({"duration_filter": 49}, [X, Y], ()),
        ({"duration_filter": 50}, [Y], ()),
        ({"transactional_id_pattern": "x"}, [X], ()),
        ({"transactional_id_pattern": ".*x"}, [X, Z], ()),
        ({"transactional_id_pattern": ""}, [X, Y, Z], ()),
    ],
)
def test_a_list_has_the_ids_that_pass_all_filters(three, filters, rows, unknown):
    assert names_of(three, **filters) == (rows, unknown)


def test_a_list_has_the_ids_that_the_caller_may_see():
    asked = Asked(AccessRules())
    assert names_of(asked) == ([], ())
    asked.broker.allow(Operation.DESCRIBE, "x", ID)
    assert names_of(asked) == ([("x", 70, "Empty")], ())


def test_no_list_with_a_bad_pattern_or_while_a_partition_loads():
    asked = Asked()
    new = codec.newest(LIST_TRANSACTIONS, "request")
    body = new.ListTransactionsRequest(
        state_filters=(), producer_id_filters=(), transactional_id_pattern="("
    )
    answer, _ = asked.ask(LIST_TRANSACTIONS, 2, body)
    assert answer.error_code is CODE.invalid_regular_expression
    asked.loading_count = 1
    answer, _ = asked.ask(LIST_TRANSACTIONS, 2, body)
    assert answer.error_code is CODE.coordinator_load_in_progress, "is looked at first, as by Kafka"
    body = new.ListTransactionsRequest(state_filters=(), producer_id_filters=())
    answer, _ = asked.ask(LIST_TRANSACTIONS, 1, body)
    assert answer.error_code is CODE.coordinator_load_in_progress
