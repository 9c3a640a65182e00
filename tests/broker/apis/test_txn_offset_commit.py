"""TxnOffsetCommit at a whole broker that coordinates both the transaction and the group."""

from datetime import timedelta
from typing import Any

import pytest

from broker.coordinators import loading
from broker.effects import Ask
from broker.events import Answered, TimeAdvanced
from coordinator.records.kinds import TRANSACTION_STATE
from coordinator.runtime.write import ProducerIdAndEpoch
from network.turn_budget import TURN_UNITS_MAX
from quorum_controller.security.authorization import AccessRules, Operation, ResourceType
from tests.broker.coordinators.coordinated import OFFSETS, Coordinated
from wire.api_keys import (
    ADD_OFFSETS_TO_TXN,
    ALLOCATE_PRODUCER_IDS,
    END_TXN,
    INIT_PRODUCER_ID,
    TXN_OFFSET_COMMIT,
)
from wire.errors import ErrorCode
from wire.messages import codec

NONE = ErrorCode.none
STATE = b"t" * 16
NOTHING = (-1, -1, "", "none")


class Transactional(Coordinated):
    """Topics a and b, and those of both coordinators; a producer `x` if it may."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.offsets()
        self.metadata.topic(TRANSACTION_STATE, STATE, partitions=1)
        self.publish()
        self.turns()
        self.producer = ProducerIdAndEpoch(-1, -1)

    def turns(self) -> None:
        for _ in range(20):
            self.effects = self.step(TimeAdvanced())

    def init(self) -> None:
        """Give x its producer id."""
        new: Any = codec.newest(INIT_PRODUCER_ID, "request")
        body = new.InitProducerIdRequest(
            transactional_id="x", transaction_timeout=timedelta(minutes=1)
        )
        answer = self.ask(INIT_PRODUCER_ID, 4, body)
        for ask in [each for each in self.effects if isinstance(each, Ask)]:
            assert ask.api_key == ALLOCATE_PRODUCER_IDS
            ids: Any = codec.newest(ALLOCATE_PRODUCER_IDS, "response")
            block = ids.AllocateProducerIdsResponse(
                throttle_time=timedelta(0), error_code=NONE, producer_id_start=70,
                producer_id_len=9,
            )  # fmt: skip
            answer = self.later(INIT_PRODUCER_ID, 4, Answered(ask.token, block))
        if answer is None or answer.error_code is not NONE:
            answer = self.ask(INIT_PRODUCER_ID, 4, body)
        assert answer.error_code is NONE
        self.producer = ProducerIdAndEpoch(answer.producer_id, answer.producer_epoch)

    def add_offsets(self, group: str = "g") -> ErrorCode:
        new: Any = codec.newest(ADD_OFFSETS_TO_TXN, "request")
        body = new.AddOffsetsToTxnRequest(
            transactional_id="x",
            producer_id=self.producer.producer_id,
            producer_epoch=self.producer.producer_epoch,
            group_id=group,
        )
        code: ErrorCode = self.ask(ADD_OFFSETS_TO_TXN, 3, body).error_code
        return code

    def send_offsets(
        self, offset: int, *, topic: str = "a", number: int = 0, version: int = 3, group: str = "g"
    ) -> ErrorCode:
        """The code of an offset that is committed in the transaction."""
        body = offsets_body(self.producer, {topic: (number, offset)}, group)
        answer = self.ask(TXN_OFFSET_COMMIT, version, body)
        while answer is None:
            answer = self.later(TXN_OFFSET_COMMIT, version, TimeAdvanced())
        code: ErrorCode = answer.topics[0].partitions[0].error_code
        return code

    def end(self, *, commits: bool) -> ErrorCode:
        new: Any = codec.newest(END_TXN, "request")
        body = new.EndTxnRequest(
            transactional_id="x",
            producer_id=self.producer.producer_id,
            producer_epoch=self.producer.producer_epoch,
            committed=commits,
        )
        code: ErrorCode = self.ask(END_TXN, 3, body).error_code
        self.turns()
        return code

    def committed(self, **fields: Any) -> Any:
        return self.fetch(("g", {"a": [0]}), **fields)


@pytest.mark.parametrize("version", [0, 2, 3, 4, 5])
@pytest.mark.parametrize("commits", [True, False])
def test_offsets_of_a_transaction_are_there_when_it_commits(version: int, commits: bool) -> None:
    broker = Transactional()
    broker.init()
    assert broker.add_offsets() is NONE
    assert broker.send_offsets(7, version=version) is NONE
    assert broker.committed() == {"g": ("none", {"a": {0: NOTHING}})}
    unstable = broker.committed(require_stable=True)
    assert unstable["g"][1]["a"][0][3] == "unstable_offset_commit"
    assert broker.end(commits=commits) is NONE
    found = (7, -1, "m", "none") if commits else NOTHING
    assert broker.committed(require_stable=True) == {"g": ("none", {"a": {0: found}})}


def test_a_partition_that_is_not_in_the_transaction_is_refused() -> None:
    broker = Transactional()
    broker.init()
    assert broker.send_offsets(7, version=3) is ErrorCode.invalid_txn_state
    assert broker.send_offsets(7, version=4) is ErrorCode.transaction_abortable
    assert broker.send_offsets(7, version=5) is NONE, "version 5 adds it"
    assert broker.end(commits=True) is NONE
    assert broker.committed() == {"g": ("none", {"a": {0: (7, -1, "m", "none")}})}


def test_an_older_epoch_is_refused() -> None:
    broker = Transactional()
    broker.init()
    assert broker.add_offsets() is NONE
    assert broker.send_offsets(7) is NONE
    old = broker.producer
    broker.init()
    broker.turns()
    broker.init()
    assert broker.producer.producer_epoch > old.producer_epoch
    broker.producer = old
    assert broker.send_offsets(8) is ErrorCode.invalid_producer_epoch


def offsets_body(
    producer: ProducerIdAndEpoch, offsets: dict[str, tuple[int, int]], group: str
) -> Any:
    """A request with a partition and its offset for each topic."""
    new: Any = codec.newest(TXN_OFFSET_COMMIT, "request")
    return new.TxnOffsetCommitRequest(
        transactional_id="x",
        group_id=group,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        topics=tuple(
            new.TxnOffsetCommitRequestTopic(
                name=topic,
                partitions=(
                    new.TxnOffsetCommitRequestPartition(
                        partition_index=number, committed_offset=offset, committed_metadata="m"
                    ),
                ),
            )
            for topic, (number, offset) in offsets.items()
        ),
    )


@pytest.mark.parametrize(
    ("version", "code"),
    [(1, ErrorCode.coordinator_not_available), (2, ErrorCode.coordinator_load_in_progress)],
)
def test_old_producers_are_not_told_that_a_coordinator_loads(
    version: int, code: ErrorCode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Refusals that come before the coordinator is asked keep their own code."""
    broker = Transactional()
    for number in range(3):
        broker.commit({"a": [(0, number), (1, number)]})
    monkeypatch.setattr(loading, "RECORD_UNITS", TURN_UNITS_MAX)
    monkeypatch.setattr(loading, "RECORDS_PER_PIECE", 1)
    again = Coordinated(vfs=broker.vfs, has_offsets=True)
    body = offsets_body(ProducerIdAndEpoch(7, 0), {"a": (0, 5), "gone": (0, 5)}, "g")
    answer = again.ask(TXN_OFFSET_COMMIT, version, body)
    codes = {topic.name: topic.partitions[0].error_code for topic in answer.topics}
    assert codes == {"a": code, "gone": ErrorCode.unknown_topic_or_partition}


def test_every_offset_has_its_error() -> None:
    broker = Transactional()
    broker.init()
    assert broker.send_offsets(7, topic="gone") is ErrorCode.unknown_topic_or_partition
    assert broker.send_offsets(7, number=2) is ErrorCode.unknown_topic_or_partition
    assert broker.send_offsets(7, group="") is ErrorCode.invalid_group_id
    assert broker.send_offsets(7, topic="gone", group="") is ErrorCode.unknown_topic_or_partition


def test_permissions() -> None:
    broker = Transactional(access=AccessRules())
    code = broker.send_offsets(7)
    assert code is ErrorCode.transactional_id_authorization_failed
    broker.allow(Operation.WRITE, "x", ResourceType.TRANSACTIONAL_ID)
    assert broker.send_offsets(7) is ErrorCode.group_authorization_failed
    broker.allow(Operation.READ, "g", ResourceType.GROUP)
    assert broker.send_offsets(7) is ErrorCode.topic_authorization_failed
    broker.allow(Operation.READ, "a", ResourceType.TOPIC)
    assert broker.send_offsets(7) is ErrorCode.invalid_producer_id_mapping


@pytest.mark.parametrize("producer", [(-1, 0), (70, -1)])
def test_a_producer_without_an_id_or_an_epoch_is_refused(producer: tuple[int, int]) -> None:
    broker = Transactional()
    broker.producer = ProducerIdAndEpoch(*producer)
    assert broker.send_offsets(7) is ErrorCode.invalid_producer_id_mapping
    broker.producer = ProducerIdAndEpoch(70, 0)
    broker.init()
    assert broker.send_offsets(7) is ErrorCode.invalid_txn_state


def test_a_broker_that_does_not_coordinate_the_group_says_so() -> None:
    broker = Transactional()
    broker.init()
    broker.metadata.remove(OFFSETS)
    broker.publish()
    assert broker.send_offsets(7) is ErrorCode.not_coordinator


def test_without_verification_only_version_5_adds_the_partition() -> None:
    broker = Transactional()
    broker.metadata.broker_config("transaction.partition.verification.enable", "false")
    broker.publish()
    broker.init()
    assert broker.send_offsets(7, version=5) is NONE
    assert broker.end(commits=True) is NONE
    assert broker.committed() == {"g": ("none", {"a": {0: (7, -1, "m", "none")}})}
    assert broker.send_offsets(8, version=3) is NONE, "nobody is asked"
