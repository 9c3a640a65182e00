"""Proposals of ISRs to the controller: what a request holds, and what its response answers."""

from datetime import timedelta
from uuid import UUID

import pytest

from metadata.image import LEADER_RECOVERED, LEADER_RECOVERING
from replication.leader.alter_partition import (
    PARTITIONS_PER_REQUEST,
    RETRY_MS,
    AlterPartitions,
    AnsweredProposal,
)
from replication.leader.isr import (
    CommittedPartitionState,
    LeaderAndIsr,
    Outcome,
    PendingExpandIsr,
    ProposedIsr,
    outcome_of,
)
from tests.wire.recorded_pairs import of_key
from wire.api_keys import ALTER_PARTITION
from wire.errors import ErrorCode
from wire.messages import codec
from wire.messages.codec import decode_request, decode_response, encode_request, split_request

ONE, TWO = bytes(15) + b"\1", bytes(15) + b"\2"
NEW = codec.newest(ALTER_PARTITION, "response")


def proposal(partition_epoch=7):
    return ProposedIsr(
        leader_epoch=3,
        partition_epoch=partition_epoch,
        isr=((1, 11), (2, None)),
        leader_recovery_state=LEADER_RECOVERING,
    )


def row(number, code=ErrorCode.none, **fields):
    return NEW.PartitionData(
        partition_index=number,
        error_code=code,
        **{"leader_id": 1, "leader_epoch": 3, "isr": (1, 2), "partition_epoch": 8, **fields},
    )


def response(rows, code=ErrorCode.none):
    """Rows by topic id."""
    return NEW.AlterPartitionResponse(
        throttle_time=timedelta(0),
        error_code=code,
        topics=tuple(
            NEW.TopicData(topic_id=topic_id and UUID(bytes=topic_id), partitions=tuple(of_topic))
            for topic_id, of_topic in rows.items()
        ),
    )


def keys_of(request):
    return [
        (topic.topic_id.bytes, part.partition_index)
        for topic in request.topics
        for part in topic.partitions
    ]


ACCEPTED = LeaderAndIsr(
    leader_id=1,
    leader_epoch=3,
    partition_epoch=8,
    isr=(1, 2),
    leader_recovery_state=LEADER_RECOVERED,
)


def sent(*partitions, now_ms=0):
    manager = AlterPartitions(9)
    for partition in partitions:
        assert manager.submit(partition, proposal())
    return manager, manager.take_request(5, now_ms)


def test_without_a_proposal_there_is_no_request():
    manager = AlterPartitions(9)
    assert manager.next_request_ms() is None
    assert manager.take_request(5, 0) is None


def test_a_request_says_what_is_proposed():
    manager = AlterPartitions(9)
    manager.submit((ONE, 4), proposal())
    assert manager.next_request_ms() == 0
    new = codec.newest(ALTER_PARTITION, "request")
    assert manager.take_request(5, 0) == new.AlterPartitionRequest(
        broker_id=9,
        broker_epoch=5,
        topics=(
            new.TopicData(
                topic_id=UUID(bytes=ONE),
                partitions=(
                    new.PartitionData(
                        partition_index=4,
                        leader_epoch=3,
                        new_isr_with_epochs=(
                            new.BrokerState(broker_id=1, broker_epoch=11),
                            new.BrokerState(broker_id=2, broker_epoch=-1),
                        ),
                        leader_recovery_state=LEADER_RECOVERING,
                        partition_epoch=7,
                    ),
                ),
            ),
        ),
    )


def test_all_that_waits_goes_in_one_request_by_topic():
    _, request = sent((TWO, 1), (ONE, 0), (TWO, 0))
    assert keys_of(request) == [(TWO, 1), (TWO, 0), (ONE, 0)]


def test_a_partition_has_one_proposal_until_it_is_answered():
    manager, _ = sent((ONE, 0))
    assert not manager.submit((ONE, 0), proposal(8))
    (answered,) = manager.on_response(response({ONE: [row(0)]}), 0)
    assert answered.proposed == proposal()
    assert manager.submit((ONE, 0), proposal(8))
    request = manager.take_request(5, 0)
    assert request.topics[0].partitions[0].partition_epoch == 8


def test_one_request_is_in_flight():
    manager, _ = sent((ONE, 0))
    assert manager.submit((ONE, 1), proposal())
    assert manager.next_request_ms() is None
    assert manager.take_request(5, 1_000) is None
    manager.on_response(response({ONE: [row(0)]}), 0)
    assert manager.next_request_ms() == 0
    assert keys_of(manager.take_request(6, 0)) == [(ONE, 1)]


def test_a_request_has_a_limit():
    assert PARTITIONS_PER_REQUEST == 200
    manager, request = sent(*((ONE, number) for number in range(201)))
    assert keys_of(request) == [(ONE, number) for number in range(200)]
    manager.on_response(response({ONE: [row(number) for number in range(200)]}), 0)
    assert keys_of(manager.take_request(5, 0)) == [(ONE, 200)]


def test_answers_come_in_the_order_sent():
    manager, _ = sent((TWO, 1), (ONE, 0), (TWO, 0))
    rows = {
        ONE: [row(0, ErrorCode.invalid_update_version)],
        TWO: [row(0, leader_recovery_state=LEADER_RECOVERING), row(1)],
    }
    answered = manager.on_response(response(rows), 0)
    recovering = LeaderAndIsr(
        leader_id=1,
        leader_epoch=3,
        partition_epoch=8,
        isr=(1, 2),
        leader_recovery_state=LEADER_RECOVERING,
    )
    assert answered == [
        AnsweredProposal((TWO, 1), proposal(), ACCEPTED),
        AnsweredProposal((ONE, 0), proposal(), ErrorCode.invalid_update_version),
        AnsweredProposal((TWO, 0), proposal(), recovering),
    ]


def test_an_unknown_recovery_state_is_an_error_of_the_controller():
    manager, _ = sent((ONE, 0))
    (answered,) = manager.on_response(response({ONE: [row(0, leader_recovery_state=2)]}), 0)
    assert answered.answer is ErrorCode.unknown_server_error


def test_what_the_response_leaves_out_is_sent_again_and_what_was_not_asked_is_ignored():
    manager, _ = sent((ONE, 0), (ONE, 1))
    rows = {TWO: [row(1)], None: [row(1)], ONE: [row(0), row(2)]}
    answered = manager.on_response(response(rows), 10)
    assert [one.partition for one in answered] == [(ONE, 0)]
    assert manager.next_request_ms() == 10 + RETRY_MS
    assert manager.take_request(5, 9 + RETRY_MS) is None
    assert keys_of(manager.take_request(5, 10 + RETRY_MS)) == [(ONE, 1)]


@pytest.mark.parametrize("is_answered", [False, True])
def test_a_request_that_failed_is_made_again_after_a_pause_from_what_waits(is_answered):
    assert RETRY_MS == 50
    manager, _ = sent((ONE, 0))
    if is_answered:
        stale = response({ONE: [row(0)]}, ErrorCode.stale_broker_epoch)
        assert manager.on_response(stale, 10) == []
    else:
        manager.on_failure(10)
    assert manager.submit((ONE, 1), proposal())
    assert manager.next_request_ms() == 60
    assert manager.take_request(6, 59) is None
    request = manager.take_request(6, 60)
    assert keys_of(request) == [(ONE, 0), (ONE, 1)]
    assert request.broker_epoch == 6


def test_after_a_refused_partition_the_next_request_waits():
    manager, _ = sent((ONE, 0), (ONE, 1))
    rows = {ONE: [row(0, ErrorCode.ineligible_replica), row(1)]}
    assert len(manager.on_response(response(rows), 10)) == 2
    assert manager.next_request_ms() is None
    manager.submit((ONE, 0), proposal())
    assert manager.next_request_ms() == 60


def test_answers_belong_to_a_request():
    manager = AlterPartitions(9)
    with pytest.raises(AssertionError):
        manager.on_failure(0)
    with pytest.raises(AssertionError):
        manager.on_response(response({}), 0)


# --- recorded


def recorded():
    return {pair["id"]: pair for pair in of_key(ALTER_PARTITION)}


RECORDED = recorded()
OUTCOMES = {
    "static-3.9.1-00827": [Outcome.ADOPTED, Outcome.WAITING, Outcome.ADOPTED],
    "static-4.3.1-00284": [Outcome.WAITING],  # the topic is deleted
    "static-4.3.1-00338": [Outcome.WAITING],  # another epoch of the leader began meanwhile
}


@pytest.mark.parametrize("name", RECORDED)
def test_requests_of_kafka_are_made_again_and_their_responses_read(name):
    """The request is equal byte for byte. The outcomes are not recorded: they follow the rules."""
    pair = RECORDED[name]
    version = pair["api_version"]
    frame = bytes.fromhex(pair["request_hex"])
    header, position = split_request(frame)
    body = decode_request(ALTER_PARTITION, version, memoryview(frame)[position:])
    manager = AlterPartitions(body.broker_id)
    for topic in body.topics:
        for part in topic.partitions:
            proposed = ProposedIsr(
                leader_epoch=part.leader_epoch,
                partition_epoch=part.partition_epoch,
                isr=tuple((one.broker_id, one.broker_epoch) for one in part.new_isr_with_epochs),
                leader_recovery_state=part.leader_recovery_state,
            )
            assert manager.submit((topic.topic_id.bytes, part.partition_index), proposed)
    request = manager.take_request(body.broker_epoch, 0)
    again = encode_request(
        ALTER_PARTITION, version, header.correlation_id, header.client_id, request
    )
    assert again == frame
    _, answer = decode_response(ALTER_PARTITION, version, bytes.fromhex(pair["response_hex"]))
    answered = manager.on_response(answer, 0)
    outcomes = [
        outcome_of(
            PendingExpandIsr(0, one.proposed, CommittedPartitionState(())),
            one.proposed,
            one.answer,
            leader_epoch=one.proposed.leader_epoch,
            partition_epoch=one.proposed.partition_epoch,
        )
        for one in answered
    ]
    assert outcomes == OUTCOMES.get(name, [Outcome.ADOPTED])
    assert manager.next_request_ms() is None


def test_six_requests_are_recorded():
    assert len(RECORDED) == 6
