"""FindCoordinator: by the newest image, in each version; a missing topic is created."""

from datetime import timedelta
from typing import Any

import pytest

from broker.apis import find_coordinator
from broker.apis.access import Access
from broker.apis.find_coordinator import TOPICS, FindCoordinator
from broker.events import Answered
from coordinator.records.kinds import CONSUMER_OFFSETS, TRANSACTION_STATE
from coordinator.runtime.shards import partition_for
from quorum_controller.security.authorization import AccessRules, Operation, ResourceType
from tests.broker.coordinators.coordinated import OFFSETS, PARTITIONS, Coordinated, logs
from wire.api_keys import CREATE_TOPICS
from wire.errors import ErrorCode
from wire.messages import codec

NUMBER = partition_for("g", PARTITIONS)
ABSENT = (-1, "", -1)


def place(row: Any) -> tuple[int, str, int]:
    return row.node_id, row.host, row.port


def code(row: Any) -> str:
    return ErrorCode(row.error_code).name


@pytest.mark.parametrize("version", range(7))
def test_the_leader_of_the_partition_is_the_coordinator(version: int) -> None:
    broker = Coordinated()
    broker.register_at("h2", 9093, node_id=2)
    broker.offsets()
    broker.metadata.change(NUMBER, OFFSETS, leader=2)
    broker.publish()
    answer = broker.find("g", version=version)
    if version < 4:
        rows = [answer]
    else:
        rows = list(answer.coordinators)
        assert [row.key for row in rows] == ["g"]
    assert [(place(row), code(row)) for row in rows] == [((2, "h2", 9093), "none")]
    if version:
        assert rows[0].error_message == ("NONE" if version < 4 else "")


def test_several_keys_have_a_row_each() -> None:
    broker = Coordinated()
    broker.offsets(partitions=1)
    answer = broker.find("g", "", "h")
    assert [(row.key, place(row)) for row in answer.coordinators] == [
        ("g", (1, "h", 9092)), ("", (1, "h", 9092)), ("h", (1, "h", 9092)),
    ]  # fmt: skip
    assert broker.find().coordinators == ()


def test_a_missing_topic_is_created_once_until_the_controller_answers() -> None:
    broker = Coordinated(properties=(("offsets.topic.num.partitions", "7"),))
    (row,) = broker.find("g").coordinators
    assert (code(row), place(row)) == ("coordinator_not_available", ABSENT)
    (ask,) = broker.asked()
    assert ask.api_key == CREATE_TOPICS
    body: Any = ask.body
    (topic,) = body.topics
    assert (topic.name, topic.num_partitions, topic.replication_factor) == (CONSUMER_OFFSETS, 7, 3)
    assert {config.name: config.value for config in topic.configs} == {
        "cleanup.policy": "compact", "compression.type": "producer", "segment.bytes": "104857600",
    }  # fmt: skip
    assert (body.timeout, body.validate_only) == (timedelta(seconds=30), False)
    assert not logs(broker.effects, "topics_auto_created")
    broker.find("g", "h")
    assert not broker.asked()
    broker.step(Answered(ask.token, None))
    broker.find("g")
    (again,) = broker.asked()
    answer = created(ErrorCode.invalid_replication_factor, "three of one")
    effects = broker.step(Answered(again.token, answer))
    assert logs(effects, "topic_auto_creation_refused") == [
        {"topic": CONSUMER_OFFSETS, "error": "invalid_replication_factor", "reason": "three of one"}
    ]
    broker.find("g")
    (third,) = broker.asked()
    assert not broker.step(Answered(third.token, created(ErrorCode.topic_already_exists, None)))


def test_each_reason_of_a_refusal_is_logged_once_and_a_creation_when_it_is_done() -> None:
    broker = Coordinated()

    def answered(error: ErrorCode, message: str | None = None) -> list[tuple[str, Any]]:
        broker.find("g")
        (ask,) = broker.asked()
        effects = broker.step(Answered(ask.token, created(error, message)))
        return [
            (event, each.get("reason"))
            for event in ("topics_auto_created", "topic_auto_creation_refused")
            for each in logs(effects, event)
        ]

    factor, refused = ErrorCode.invalid_replication_factor, "topic_auto_creation_refused"
    assert answered(factor, "three of one") == [(refused, "three of one")]
    assert answered(factor, "three of one") == []
    assert answered(factor, "three of two") == [(refused, "three of two")]
    assert answered(ErrorCode.policy_violation, "three of two") == [(refused, "three of two")]
    assert answered(ErrorCode.topic_already_exists) == []
    assert answered(ErrorCode.policy_violation, "three of two") == [(refused, "three of two")]
    assert answered(ErrorCode.none) == [("topics_auto_created", None)]
    assert answered(ErrorCode.policy_violation, "three of two") == [(refused, "three of two")]


def created(error: ErrorCode, message: str | None) -> Any:
    new = codec.newest(CREATE_TOPICS, "response")
    row = new.CreatableTopicResult(
        name=CONSUMER_OFFSETS, topic_id=None, error_code=error, error_message=message,
        topic_config_error_code=0, num_partitions=-1, replication_factor=-1, configs=(),
    )  # fmt: skip
    return new.CreateTopicsResponse(throttle_time=timedelta(0), topics=(row,))


def test_a_partition_without_a_reachable_leader_has_no_coordinator() -> None:
    broker = Coordinated()
    broker.offsets(leader=-1)
    (row,) = broker.find("g").coordinators
    assert (code(row), place(row)) == ("coordinator_not_available", ABSENT)
    broker.register_at("h2", 9093, node_id=2, fenced=True)
    broker.metadata.change(NUMBER, OFFSETS, leader=2)
    broker.publish()
    (row,) = broker.find("g").coordinators
    assert (code(row), place(row)) == ("coordinator_not_available", ABSENT)


def test_who_may_not_describe_the_group_is_refused_and_creates_nothing() -> None:
    broker = Coordinated(access=AccessRules())
    (row,) = broker.find("g").coordinators
    assert (code(row), place(row)) == ("group_authorization_failed", ABSENT)
    assert not broker.asked()
    broker.allow(Operation.DESCRIBE, "g", ResourceType.GROUP)
    first, second = broker.find("g", "h").coordinators
    assert (code(first), code(second)) == (
        "coordinator_not_available", "group_authorization_failed",
    )  # fmt: skip


def test_keys_of_other_types() -> None:
    broker = Coordinated(access=AccessRules())
    answer = broker.find("t", version=3, key_type=1)
    assert code(answer) == "transactional_id_authorization_failed"
    assert answer.error_message == "Transactional Id authorization failed."
    assert broker.find("g", version=3).error_message == "Group authorization failed."
    broker.allow(Operation.DESCRIBE, "t", ResourceType.TRANSACTIONAL_ID)
    answer = broker.find("t", version=3, key_type=1)
    assert code(answer) == "coordinator_not_available"
    assert broker.asked(), "the topic is created"
    (row,) = broker.find("s", version=6, key_type=2).coordinators
    assert (code(row), row.error_message) == ("invalid_request", find_coordinator.NO_SHARE_GROUPS)
    (row,) = broker.find("s", version=6, key_type=9).coordinators
    assert code(row) == "invalid_request"


def test_transactions_have_a_topic_of_their_own() -> None:
    assert TOPICS == {0: CONSUMER_OFFSETS, 1: TRANSACTION_STATE}
    broker = Coordinated()
    asked: list[str] = []
    image = broker.broker._newest_image
    handler = FindCoordinator(Access(None, image), image, asked.append)
    broker.broker._front._handlers[10] = handler.serve
    answer = broker.find("t", version=2, key_type=1)
    assert code(answer) == "coordinator_not_available"
    assert asked == [TRANSACTION_STATE]
