"""Produce of transactional batches: verified or added at the coordinator, in their order."""

import msgspec
import pytest

from broker.coordinators.verification import TRANSACTION_STATE
from metadata.image import Topic
from network.peers import Failure
from storage.logs.log_validator import AppendRules
from tests.broker.apis.records import Records, key_of, produced_rows
from tests.broker.apis.test_produce import records
from tests.replication.partitions import registration
from tests.wire.messages.test_produce import request_bytes
from wire.api_keys import ADD_PARTITIONS_TO_TXN, PRODUCE
from wire.errors import ErrorCode
from wire.messages import codec

CODE = ErrorCode
TRANSACTIONAL = 0x10
COORDINATOR_ID = bytes(15) + b"\x09"


class Leader(Records):
    """Broker 1 leads topics t and u; broker 2 coordinates transactions."""

    def __init__(self):
        super().__init__()
        for name in ("t", "u"):
            self.name(name)
            self.create(key_of(name), rules=AppendRules(), isr=(1,), replicas=(1,))
        self.broker(2)
        topic = Topic(COORDINATOR_ID, TRANSACTION_STATE)
        topic = msgspec.structs.replace(
            topic, partitions=topic.partitions.set(0, registration(2, isr=(2,), replicas=(2,)))
        )
        self.image = msgspec.structs.replace(
            self.image,
            topics=self.image.topics.set(COORDINATOR_ID, topic),
            topic_id_by_name=self.image.topic_id_by_name.set(TRANSACTION_STATE, COORDINATOR_ID),
        )

    def write(self, *names, version=12, sequence=0, **fields):
        batch = records(producer=5, attributes=TRANSACTIONAL, sequence=sequence)
        batches = {name: {0: batch} for name in names}
        return self.send(batches, version=version, transactional_id="x", **fields)

    def prepared(self, name, acks=1):
        """A call that is not served yet, and its answers."""
        batch = records(producer=5, attributes=TRANSACTIONAL)
        body = request_bytes(12, "x", acks, 50, {name: [(0, batch)]})
        return self.made_call(PRODUCE, 12, body)

    def question(self):
        """Verify only, and the partitions, of the request to the coordinator."""
        ((node, key, body, _),) = self.asked_brokers
        assert (node, key) == (2, ADD_PARTITIONS_TO_TXN)
        (row,) = body.transactions
        assert (row.transactional_id, row.producer_id, row.producer_epoch) == ("x", 5, 0)
        return row.verify_only, [str(topic.name) for topic in row.topics]

    def answer(self, **codes):
        """Answer it, with these codes by topic."""
        ((_, _, body, answered),) = self.asked_brokers
        self.asked_brokers.clear()
        new = codec.newest(ADD_PARTITIONS_TO_TXN, "response")
        (row,) = body.transactions
        answered(
            new.AddPartitionsToTxnResponse(
                throttle_time=0,
                error_code=CODE.none,
                results_by_transaction=(
                    new.AddPartitionsToTxnResult(
                        transactional_id="x",
                        topic_results=tuple(
                            new.AddPartitionsToTxnTopicResult(
                                name=topic.name,
                                results_by_partition=(
                                    new.AddPartitionsToTxnPartitionResult(
                                        partition_index=0,
                                        partition_error_code=codes.get(topic.name, CODE.none),
                                    ),
                                ),
                            )
                            for topic in row.topics
                        ),
                    ),
                ),
            )
        )

    def end(self, name="t"):
        return self.manager.partitions[key_of(name)].log.end_offset


@pytest.mark.parametrize(("version", "verifies"), [(9, True), (11, True), (12, False), (13, False)])
def test_a_batch_is_appended_when_the_coordinator_has_said_yes(version, verifies):
    leader = Leader()
    asked = leader.write("t", version=version)
    assert leader.question() == (verifies, ["t"])
    assert (asked.parts, leader.end()) == ([], 0)
    leader.answer()
    (row,) = produced_rows(asked, version).values()
    assert (row.error_code, leader.end()) == (CODE.none, 1)
    leader.write("t", version=version, sequence=1)
    assert (leader.asked_brokers, leader.end()) == ([], 2), "the transaction is open here"


def test_without_verification_only_a_client_that_adds_is_asked_for():
    for version in (11, 12):
        leader = Leader()
        for partition in leader.manager.partitions.values():
            partition.log.configure(
                partition.log.log.config, AppendRules(verifies_transactions=False)
            )
        leader.write("t", version=version)
        assert (len(leader.asked_brokers), leader.end()) == ((1, 0) if version == 12 else (0, 1))


def test_what_the_coordinator_refuses_is_not_appended():
    leader = Leader()
    asked = leader.write("t", "u")
    assert leader.question() == (False, ["t", "u"])
    leader.answer(t=CODE.transaction_abortable)
    rows = produced_rows(asked)
    assert rows["t", 0].error_code is CODE.transaction_abortable
    assert (rows["t", 0].error_message, rows["t", 0].base_offset) == (None, -1)
    assert rows["u", 0].error_code is CODE.none
    assert (leader.end("t"), leader.end("u")) == (0, 1)


ENDING = "Underlying error: "


@pytest.mark.parametrize(
    ("version", "code", "expected", "message"),
    [
        (12, CODE.invalid_txn_state, CODE.invalid_txn_state, "Partition was not added"),
        (12, CODE.not_coordinator, CODE.not_enough_replicas, ENDING + "NOT_COORDINATOR"),
        (12, CODE.coordinator_load_in_progress, CODE.not_enough_replicas,
         ENDING + "COORDINATOR_LOAD_IN_PROGRESS"),
        (11, CODE.concurrent_transactions, CODE.not_enough_replicas,
         ENDING + "CONCURRENT_TRANSACTIONS"),
        (12, CODE.producer_fenced, CODE.invalid_producer_epoch, None),
        (10, CODE.transaction_abortable, CODE.invalid_txn_state, "Partition was not added"),
    ],
)  # fmt: skip
def test_refusals_of_the_coordinator_as_the_client_knows_them(version, code, expected, message):
    leader = Leader()
    asked = leader.write("t", version=version)
    leader.answer(t=code)
    row = produced_rows(asked, version)["t", 0]
    assert row.error_code is expected
    assert (message is None) == (row.error_message is None)
    assert message is None or message in row.error_message


def test_a_client_that_adds_is_told_that_its_last_transaction_ends():
    leader = Leader()
    asked = leader.write("t")
    leader.answer(t=CODE.concurrent_transactions)
    leader.advance(100)
    leader.verifier.tick()
    leader.answer(t=CODE.concurrent_transactions)
    row = produced_rows(asked)["t", 0]
    assert (row.error_code, row.error_message) == (CODE.concurrent_transactions, None)


def test_without_an_answer_the_client_comes_again():
    leader = Leader()
    asked = leader.write("t")
    leader.asked_brokers.pop()[3](Failure.TIMED_OUT)
    row = produced_rows(asked)["t", 0]
    assert row.error_code is CODE.not_enough_replicas
    assert row.error_message.endswith(ENDING + "NETWORK_EXCEPTION")


def test_a_transactional_batch_without_a_producer_is_asked_for_nowhere():
    leader = Leader()
    nobody = records(producer=-1, attributes=TRANSACTIONAL, sequence=-1)
    rows = leader.send(
        {"t": {0: nobody}, "u": {0: records(producer=5, sequence=0)}}, transactional_id="x"
    )
    assert [row.error_code for row in produced_rows(rows).values()] == [CODE.none, CODE.none]
    assert not leader.asked_brokers


def test_a_negative_epoch_is_asked_for_like_any_other():
    leader = Leader()
    for _ in range(2):
        batch = records(producer=5, epoch=-1, attributes=TRANSACTIONAL)
        leader.send({"t": {0: batch}}, transactional_id="x")
    assert len(leader.asked_brokers) == 1


def test_an_older_epoch_is_refused_before_anything_is_asked():
    leader = Leader()
    batch = records(producer=5, attributes=TRANSACTIONAL, epoch=2)
    leader.send({"t": {0: batch}}, transactional_id="x")
    leader.asked_brokers.pop()[3](Failure.UNSUPPORTED_VERSION)
    assert leader.end() == 1, "a coordinator that cannot verify is not asked again"
    row = produced_rows(leader.write("t"))["t", 0]
    assert (row.error_code, leader.asked_brokers) == (CODE.invalid_producer_epoch, [])


def test_another_leader_is_named_without_a_question():
    leader = Leader()
    leader.register(key_of("t"), registration(2, 2, isr=(1, 2), replicas=(1, 2)))
    row = produced_rows(leader.write("t"))["t", 0]
    assert (row.error_code, row.current_leader.leader_id) == (CODE.not_leader_or_follower, 2)
    assert leader.asked_brokers == []


def test_others_of_the_request_wait_with_it():
    leader = Leader()
    batches = {"t": {0: records(producer=5, attributes=TRANSACTIONAL)}, "u": {0: records()}}
    asked = leader.send(batches, transactional_id="x")
    assert leader.end("u") == 0
    leader.answer()
    assert {row.error_code for row in produced_rows(asked).values()} == {CODE.none}
    assert leader.end("u") == 1


def test_later_requests_of_the_connection_are_held_up_until_the_append():
    leader = Leader()
    held, released = [], []
    call, asked = leader.prepared("t")
    call.hold = lambda: held.append(1) or released.append
    leader.produce.serve(call)
    assert (held, released) == ([1], [])
    leader.answer()
    assert (released, len(asked.parts)) == ([None], 1), "with acks=1 nobody waits on"
    leader.topic("v", isr=(1, 2), replicas=(1, 2))
    call, asked = leader.prepared("v", acks=-1)
    call.hold = lambda: released.append
    leader.produce.serve(call)
    leader.answer()
    assert asked.parts == []
    released[1]()
    leader.advance(60_000)
    assert asked.parts == [], "who waited for replicas was withdrawn"
