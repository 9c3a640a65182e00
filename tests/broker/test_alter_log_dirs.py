"""AlterReplicaLogDirs: refusals, directories of replicas to come, the answer of a begun move."""

from typing import Any

import pytest

from broker.apis.log_dirs.alter_log_dirs import AlterReplicaLogDirs
from quorum_controller.security.authorization import AccessRules
from tests.broker.apis.requests import Broker, call_of
from tests.broker.metadata_log import A
from tests.broker.record_hosts import Host, with_topics
from wire.api_keys import ALTER_REPLICA_LOG_DIRS
from wire.messages import codec

KEY = (A, 0)


class Keys:
    def __init__(self, host: Host) -> None:
        self.host = host

    def key_of(self, topic: str, number: int) -> Any:
        image = self.host.log.image
        topic_id = image.topic_id_by_name.get(topic)
        if topic_id is None or number not in image.topics[topic_id].partitions:
            return None
        return topic_id, number


class Asked:
    def __init__(self, **properties: str) -> None:
        self.host = Host(with_topics("a"), **properties).started()
        self.host.append(3)
        self.broker: Any = Broker("a")

    def ask(self, path: str, topic: str = "a", *numbers: int) -> list[tuple[str, int, str]]:
        local: Any = self.host.local
        handler = AlterReplicaLogDirs(
            local._config,
            Keys(self.host),  # type: ignore[arg-type]
            self.broker.access,
            local=local,
            choice=local.choice,
            moves=local.moves,
            image=lambda: self.host.log.image,
        )
        new = codec.newest(ALTER_REPLICA_LOG_DIRS, "request")
        row = new.AlterReplicaLogDirTopic(name=topic, partitions=numbers or (0,))
        body = new.AlterReplicaLogDirsRequest(
            dirs=(new.AlterReplicaLogDir(path=path, topics=(row,)),)
        )
        answers: list[Any] = []
        handler.serve(call_of(ALTER_REPLICA_LOG_DIRS, 2, body, answers))
        self.host.work()
        (answer,) = answers
        return [
            (str(result.topic_name), row.partition_index, row.error_code.name)
            for result in answer.results
            for row in result.partitions
        ]

    def code(self, path: str, topic: str = "a", number: int = 0) -> str:
        ((_, _, name),) = self.ask(path, topic, number)
        return name


def test_a_move_is_answered_when_its_directory_is_made() -> None:
    asked = Asked()
    assert asked.code("/2") == "none"
    assert asked.host.local.moves.log_dir_of(KEY) == "/2"
    assert asked.code("/2") == "none"
    assert asked.code("/1") == "none"
    assert asked.host.local.moves.log_dir_of(KEY) is None, "where it is ends the move"
    assert asked.host.local.choice.preferred == {}


def test_each_partition_has_its_answer() -> None:
    assert Asked().ask("/2", "a", 0, 7) == [
        ("a", 0, "none"),
        ("a", 7, "unknown_topic_or_partition"),
    ]


@pytest.mark.parametrize(
    ("path", "topic", "number", "code"),
    [
        ("/3", "a", 0, "log_dir_not_found"),
        ("/2", "x", 0, "unknown_topic_or_partition"),
        ("/2", "t" * 214, 0, "invalid_topic_exception"),
        ("/2", "t" * 213, 0, "unknown_topic_or_partition"),
    ],
)
def test_refusals(path: str, topic: str, number: int, code: str) -> None:
    assert Asked().code(path, topic, number) == code


def test_a_replica_that_comes_goes_where_it_was_asked_to() -> None:
    asked = Asked()
    asked.host.log.topic("b", leader=2, replicas=(2,))
    assert asked.code("/2", "b") == "replica_not_available"
    asked.host.log.change(0, b"b" * 16, replicas=(1,), isr=(1,), leader=1, directories=(bytes(16),))
    asked.host.update()
    assert asked.host.local.log_dir_of((b"b" * 16, 0)) == "/2"  # type: ignore[arg-type]
    assert asked.host.local.choice.preferred == {}


def test_an_offline_directory_keeps_replicas_where_they_are() -> None:
    asked = Asked()
    asked.host.local.fail("/2", OSError("broken"))
    assert asked.code("/2") == "kafka_storage_error"
    assert asked.code("/1") == "none"
    asked = Asked()
    asked.host.local.fail("/1", OSError("broken"))
    assert asked.code("/2") == "kafka_storage_error"


def test_a_cordoned_directory_takes_no_replica() -> None:
    assert Asked(cordoned_log_dirs="/2").code("/2") == "invalid_replica_assignment"


def test_the_cluster_may_refuse() -> None:
    asked = Asked()
    asked.broker = Broker("a", rules=AccessRules())
    assert asked.code("/2") == "cluster_authorization_failed"
    assert asked.host.local.moves.of(KEY) is None
