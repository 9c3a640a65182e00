"""InitProducerId: ids out of blocks of the controller, prefetched at 90 %, and its refusals."""

from datetime import timedelta
from functools import partial

import pytest

from broker.apis.transactions.producer_ids import InitProducerId
from broker.awaited import Asks
from broker.producer_id_blocks import ProducerIdBlocks
from network.clock import Clock, Now
from quorum_controller.security.authorization import (
    AccessRules,
    Operation,
    PatternType,
    ResourceType,
)
from tests.broker.apis.requests import Broker, answer_bytes, ask, call_of, recorded
from tests.coordinator.transaction.test_machine import Coordinator
from wire.api_keys import ALLOCATE_PRODUCER_IDS, INIT_PRODUCER_ID
from wire.errors import ErrorCode
from wire.messages import codec

LOADING = ErrorCode.coordinator_load_in_progress


class Asked:
    """Broker 1, registered with epoch 31; requests for blocks wait in `waiting`."""

    def __init__(self, *, rules=None):
        self.broker = Broker("a", rules=rules)
        self.clock = Clock(Now(0, 0))
        self.waiting = []
        self.bodies = []
        self.epoch = 31
        self.asks = Asks(self)
        self.blocks = ProducerIdBlocks(1, lambda: self.epoch, self.clock, self.asks)
        self.coordinator = Coordinator()
        self.handler = InitProducerId(self.blocks, self.broker.access, self.coordinator.coordinator)

    def append(self, effect):
        assert effect.api_key == ALLOCATE_PRODUCER_IDS
        self.bodies.append((effect.body.broker_id, effect.body.broker_epoch))
        self.waiting.append(partial(self.asks.on_answer, effect.token))

    def allocate(self, start, count=10, code=ErrorCode.none):
        new = codec.newest(ALLOCATE_PRODUCER_IDS, "response")
        answer = new.AllocateProducerIdsResponse(
            throttle_time=timedelta(0),
            error_code=code,
            producer_id_start=start,
            producer_id_len=count,
        )
        (answered,) = self.waiting
        self.waiting.clear()
        answered(answer)

    def advance(self, ms):
        self.clock.set(Now(self.clock.now_ms + ms, 0))

    def ask(self, transactional_id=None, *, version=5, producer_id=-1, epoch=-1):
        new = codec.newest(INIT_PRODUCER_ID, "request")
        body = new.InitProducerIdRequest(
            transactional_id=transactional_id,
            transaction_timeout=timedelta(seconds=60),
            producer_id=producer_id,
            producer_epoch=epoch,
        )
        answer = ask(self.handler, INIT_PRODUCER_ID, version, body)
        if answer.error_code is ErrorCode.none:
            assert answer.producer_epoch == 0
            return answer.producer_id
        assert (answer.producer_id, answer.producer_epoch) == (-1, -1)
        return answer.error_code


@pytest.mark.parametrize("version", range(6))
def test_the_first_producer_waits_for_the_first_block(version):
    asked = Asked()
    assert asked.ask(version=version) is LOADING
    assert asked.bodies == [(1, 31)]
    assert asked.ask(version=version) is LOADING
    assert len(asked.waiting) == 1
    asked.allocate(7000)
    assert [asked.ask(version=version) for _ in range(3)] == [7000, 7001, 7002]
    assert asked.waiting == []


def test_the_next_block_is_asked_for_at_90_percent():
    asked = Asked()
    asked.ask()
    asked.allocate(0, 100)
    assert [asked.ask() for _ in range(90)] == list(range(90))
    assert asked.waiting == []
    assert asked.ask() == 90
    assert len(asked.waiting) == 1
    asked.allocate(100, 10)
    assert [asked.ask() for _ in range(19)] == list(range(91, 110))
    assert len(asked.waiting) == 1
    assert asked.ask() is LOADING
    asked.allocate(150)
    assert asked.ask() == 150
    assert len(asked.bodies) == 3


def test_a_block_that_is_here_is_not_asked_for_again():
    asked = Asked()
    asked.ask()
    asked.allocate(0, 1)
    assert asked.ask() == 0
    asked.allocate(1, 1)
    assert asked.ask() == 1
    asked.allocate(2, 10)
    assert asked.ask() == 2
    assert asked.waiting == []


@pytest.mark.parametrize(
    "refuse",
    [
        lambda asked: asked.allocate(10, code=ErrorCode.stale_broker_epoch),
        lambda asked: asked.waiting.pop()(None),
        lambda asked: asked.allocate(-1),
        lambda asked: asked.allocate(10, 0),
        lambda asked: asked.allocate(2**63 - 10, 10),
        lambda asked: asked.allocate(9, 10),
    ],
)
def test_a_refusal_is_asked_again_with_the_newest_epoch_after_a_pause(refuse):
    asked = Asked()
    asked.ask()
    asked.allocate(0)
    assert [asked.ask() for _ in range(10)] == list(range(10))
    refuse(asked)
    asked.epoch = 32
    asked.advance(49)
    assert asked.ask() is LOADING
    assert asked.waiting == []
    asked.advance(1)
    assert asked.ask() is LOADING
    assert asked.bodies[-1] == (1, 32)
    asked.allocate(10)
    assert asked.ask() == 10


def test_the_last_ids_are_given():
    asked = Asked()
    asked.ask()
    asked.allocate(2**63 - 11, 10)
    assert asked.ask() == 2**63 - 11


def test_a_producer_that_names_its_id_gets_another_one():
    asked = Asked()
    asked.ask()
    asked.allocate(10)
    assert asked.ask(producer_id=3) is ErrorCode.invalid_request
    assert asked.ask(epoch=3) is ErrorCode.invalid_request
    assert asked.ask(producer_id=3, epoch=0) == 10


def test_a_transactional_id_needs_a_name_and_a_whole_producer():
    asked = Asked()
    assert asked.ask("") is ErrorCode.invalid_request
    assert asked.ask("t", epoch=3) is ErrorCode.invalid_request
    assert asked.ask("t", producer_id=3) is ErrorCode.invalid_request
    assert asked.waiting == []


def init(asked, transactional_id="t", *, version=5, **fields):
    """The answers to a request for a transactional id, once it is committed."""
    new = codec.newest(INIT_PRODUCER_ID, "request")
    given = {"transaction_timeout": timedelta(seconds=1), "producer_id": -1, "producer_epoch": -1}
    body = new.InitProducerIdRequest(transactional_id=transactional_id, **(given | fields))
    answers = []
    asked.handler.serve(call_of(INIT_PRODUCER_ID, version, body, answers))
    before = len(answers)
    asked.coordinator.commit()
    return before, [(each.error_code, each.producer_id, each.producer_epoch) for each in answers]


def test_a_transactional_id_is_answered_when_it_is_committed():
    asked = Asked()
    assert init(asked) == (0, [(ErrorCode.none, 70, 0)])
    assert init(asked) == (0, [(ErrorCode.none, 70, 1)])
    assert init(asked, producer_id=70, producer_epoch=1) == (0, [(ErrorCode.none, 70, 2)])
    minute = {"transaction_timeout": timedelta(seconds=61)}
    refused = ErrorCode.invalid_transaction_timeout
    assert init(asked, **minute) == (1, [(refused, -1, -1)])


@pytest.mark.parametrize("version", range(3, 6))
def test_older_clients_do_not_know_that_they_are_fenced(version):
    asked = Asked()
    init(asked)
    known = ErrorCode.producer_fenced if version >= 4 else ErrorCode.invalid_producer_epoch
    assert init(asked, version=version, producer_id=7, producer_epoch=0)[1] == [(known, -1, -1)]


def test_two_phase_commit_is_refused_as_by_a_kafka_without_it():
    asked = Asked()
    denied = ErrorCode.transactional_id_authorization_failed
    assert init(asked, version=6, enable2_pc=True)[1] == [(denied, -1, -1)]
    unsupported = ErrorCode.unsupported_version
    assert init(asked, version=6, keep_prepared_txn=True)[1] == [(unsupported, -1, -1)]


@pytest.mark.parametrize(
    ("acl", "code"),
    [
        ((Operation.IDEMPOTENT_WRITE, "kafka-cluster", ResourceType.CLUSTER), LOADING),
        ((Operation.WRITE, "new"), LOADING),
        ((Operation.READ, "a"), ErrorCode.cluster_authorization_failed),
        (
            (Operation.WRITE, "t", ResourceType.TRANSACTIONAL_ID),
            ErrorCode.cluster_authorization_failed,
        ),
    ],
)
def test_who_may_write_some_topic_may_have_an_id(acl, code):
    asked = Asked(rules=AccessRules())
    assert asked.ask(epoch=3) is ErrorCode.cluster_authorization_failed
    asked.broker.allow(*acl)
    assert asked.ask() is code


def test_the_transactional_id_is_to_be_allowed():
    asked = Asked(rules=AccessRules())
    asked.broker.allow(Operation.WRITE, "*")
    refused = ErrorCode.transactional_id_authorization_failed
    assert (asked.ask("t1"), asked.ask("t1", epoch=3)) == (refused, refused)
    asked.broker.allow(
        Operation.WRITE,
        "t",
        ResourceType.TRANSACTIONAL_ID,
        pattern_type=int(PatternType.PREFIXED),
    )
    assert init(asked, "t1")[1] == [(ErrorCode.none, 70, 0)]


@pytest.mark.parametrize(
    ("number", "start"),
    [("167", None), ("170", 0), ("211", None), ("212", 2000), ("296", 1)],
)
def test_recorded_answers_of_kafka(number, start):
    request, response = recorded(f"static-4.3.1-00{number}")
    asked = Asked()
    if start is not None:
        asked.ask()
        asked.allocate(start)
    assert answer_bytes(asked.handler, request) == response
