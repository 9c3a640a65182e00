"""One face for the three Python clients, so that each test runs with each of them.

Every call returns plain values; a refusal is raised as `Refused(code, message)` with Kafka's error
code, whatever class the client makes of it.
"""

import asyncio
from typing import Any, Protocol

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin import NewTopic as AioNewTopic
from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient, NewTopic
from kafka.admin import KafkaAdminClient


class Refused(Exception):  # noqa: N818 - it names what the server did
    """The server answered with an error."""

    def __init__(self, code: int, message: str | None) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message


class Client(Protocol):
    """Operations that the tests ask of a client."""

    def create(
        self,
        name: str,
        partitions: int = 1,
        replicas: int = 1,
        configs: dict[str, str] | None = None,
        assignment: dict[int, list[int]] | None = None,
        *,
        validate_only: bool = False,
    ) -> None: ...

    def names(self) -> set[str]: ...

    def describe(self, name: str) -> dict[int, list[int]]:
        """Replicas by partition."""
        ...

    def delete(self, name: str) -> None: ...

    def broker_ids(self) -> set[int]: ...

    def close(self) -> None: ...


class ConfluentClient:
    """librdkafka by confluent-kafka."""

    def __init__(self, bootstrap: str) -> None:
        self._admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 2})

    def create(self, name, partitions=1, replicas=1, configs=None, assignment=None, *,
               validate_only=False):  # fmt: skip
        if assignment is None:
            topic = NewTopic(
                name, num_partitions=partitions, replication_factor=replicas, config=configs or {}
            )
        else:
            topic = NewTopic(
                name,
                num_partitions=len(assignment),
                replica_assignment=[assignment[p] for p in sorted(assignment)],
                config=configs or {},
            )
        self._wait(self._admin.create_topics([topic], validate_only=validate_only)[name])

    @staticmethod
    def _wait(future: Any) -> Any:
        try:
            return future.result(timeout=15)
        except KafkaException as refused:
            error = refused.args[0]
            raise Refused(error.code(), error.str()) from refused

    def names(self) -> set[str]:
        return set(self._admin.list_topics(timeout=10).topics)

    def describe(self, name: str) -> dict[int, list[int]]:
        future = self._admin.describe_topics(TopicCollection([name]))[name]
        described = self._wait(future)
        return {p.id: [node.id for node in p.replicas] for p in described.partitions}

    def delete(self, name: str) -> None:
        self._wait(self._admin.delete_topics([name])[name])

    def broker_ids(self) -> set[int]:
        return {node.id for node in self._wait(self._admin.describe_cluster()).nodes}

    def close(self) -> None:
        pass


def _refuse(code: int, message: str | None) -> None:
    if code:
        raise Refused(code, message)


class KafkaPythonClient:
    """kafka-python."""

    def __init__(self, bootstrap: str) -> None:
        self._admin = KafkaAdminClient(bootstrap_servers=bootstrap)

    def create(self, name, partitions=1, replicas=1, configs=None, assignment=None, *,
               validate_only=False):  # fmt: skip
        topic: dict[str, Any] = {"configs": configs or {}}
        if assignment is None:
            topic |= {"num_partitions": partitions, "replication_factor": replicas}
        else:
            topic["assignments"] = assignment
        answer = self._admin.create_topics(
            {name: topic}, validate_only=validate_only, raise_errors=False
        )
        for row in answer["topics"]:
            _refuse(row["error_code"], row.get("error_message"))

    def names(self) -> set[str]:
        return set(self._admin.list_topics())

    def describe(self, name: str) -> dict[int, list[int]]:
        (row,) = self._admin.describe_topics([name])
        _refuse(row["error_code"], None)
        return {p["partition_index"]: list(p["replica_nodes"]) for p in row["partitions"]}

    def delete(self, name: str) -> None:
        answer = self._admin.delete_topics([name], raise_errors=False)
        for row in answer["topics"]:
            _refuse(row["error_code"], row.get("error_message"))

    def broker_ids(self) -> set[int]:
        return {broker["broker_id"] for broker in self._admin.describe_cluster()["brokers"]}

    def close(self) -> None:
        self._admin.close()


class AiokafkaClient:
    """aiokafka, with an event loop of its own."""

    def __init__(self, bootstrap: str) -> None:
        self._runner = asyncio.Runner()
        self._admin: AIOKafkaAdminClient = self._runner.run(self._start(bootstrap))

    @staticmethod
    async def _start(bootstrap: str) -> AIOKafkaAdminClient:
        admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
        await admin.start()
        return admin

    def create(self, name, partitions=1, replicas=1, configs=None, assignment=None, *,
               validate_only=False):  # fmt: skip
        topic = AioNewTopic(
            name,
            -1 if assignment else partitions,
            -1 if assignment else replicas,
            assignment,
            configs or {},
        )
        answer = self._runner.run(self._admin.create_topics([topic], validate_only=validate_only))
        for row in answer.topic_errors:
            _refuse(row[1], row[2])

    def names(self) -> set[str]:
        return set(self._runner.run(self._admin.list_topics()))

    def describe(self, name: str) -> dict[int, list[int]]:
        (row,) = self._runner.run(self._admin.describe_topics([name]))
        _refuse(row["error_code"], None)
        return {p["partition"]: list(p["replicas"]) for p in row["partitions"]}

    def delete(self, name: str) -> None:
        answer = self._runner.run(self._admin.delete_topics([name]))
        for row in answer.topic_error_codes:
            _refuse(row[1], None)

    def broker_ids(self) -> set[int]:
        cluster = self._runner.run(self._admin.describe_cluster())
        return {broker["node_id"] for broker in cluster["brokers"]}

    def close(self) -> None:
        self._runner.run(self._admin.close())
        self._runner.close()


CLIENTS: dict[str, type] = {
    "confluent-kafka": ConfluentClient,
    "kafka-python": KafkaPythonClient,
    "aiokafka": AiokafkaClient,
}
