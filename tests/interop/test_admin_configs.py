"""Three client libraries read and change configs, quotas, credentials and features."""

import asyncio
import re
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import pytest
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin.config_resource import ConfigResource as AioResource
from aiokafka.admin.config_resource import ConfigResourceType as AioResourceType
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from kafka.admin import ConfigResource as KpResource
from kafka.admin import ConfigResourceType as KpResourceType
from kafka.admin import KafkaAdminClient
from kafka.errors import InvalidUpdateVersionError

from tests.interop.clients import ConfluentClient
from tests.interop.quorum import Quorum, wait_until

NOT_A_NUMBER = "Invalid value soon for configuration retention.ms: Not a number of type LONG"
TOPIC_CONFIGS_LISTED = 33


class ConfigsClient(Protocol):
    """The config calls that every library has."""

    def read(self, topic: str) -> dict[str, tuple[str | None, int]]:
        """Value and source of every config of a topic."""
        ...

    def write(self, topic: str, name: str, value: str) -> str | None:
        """Set one config; the refusal's text, None when it was taken."""
        ...

    def close(self) -> None: ...


class Confluent:
    """librdkafka: IncrementalAlterConfigs 1, DescribeConfigs 4."""

    def __init__(self, bootstrap: str) -> None:
        self._admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 2})

    def read(self, topic: str) -> dict[str, tuple[str | None, int]]:
        (future,) = self._admin.describe_configs(
            [ConfigResource(ResourceType.TOPIC, topic)]
        ).values()
        return {n: (e.value, e.source) for n, e in future.result(timeout=15).items()}

    def write(self, topic: str, name: str, value: str) -> str | None:
        entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
        (future,) = self._admin.incremental_alter_configs([resource]).values()
        try:
            future.result(timeout=15)
        except KafkaException as refused:
            return str(refused.args[0].str())
        return None

    def close(self) -> None:
        pass


class KafkaPython:
    """kafka-python: IncrementalAlterConfigs, DescribeConfigs 4."""

    SOURCES = ("UNKNOWN", "DYNAMIC_TOPIC_CONFIG", "", "", "STATIC_BROKER_CONFIG", "DEFAULT_CONFIG")

    def __init__(self, bootstrap: str) -> None:
        self._admin = KafkaAdminClient(bootstrap_servers=bootstrap)

    def read(self, topic: str) -> dict[str, tuple[str | None, int]]:
        resource = KpResource(KpResourceType.TOPIC, topic)
        found = self._admin.describe_configs([resource], config_filter="all")["topic"][topic]
        return {n: (c["value"], self.SOURCES.index(c["config_source"])) for n, c in found.items()}

    def write(self, topic: str, name: str, value: str) -> str | None:
        resource = KpResource(KpResourceType.TOPIC, topic, {name: value})
        told = self._admin.alter_configs([resource], raise_on_unknown=False)["topic"][topic]
        return None if told == "OK" else str(told).partition("Error: ")[2]

    def close(self) -> None:
        self._admin.close()


class Aiokafka:
    """aiokafka: the older AlterConfigs 1, DescribeConfigs 2."""

    def __init__(self, bootstrap: str) -> None:
        self._runner = asyncio.Runner()
        self._admin: AIOKafkaAdminClient = self._runner.run(self._start(bootstrap))

    @staticmethod
    async def _start(bootstrap: str) -> AIOKafkaAdminClient:
        admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
        await admin.start()
        return admin

    def read(self, topic: str) -> dict[str, tuple[str | None, int]]:
        resource = AioResource(AioResourceType.TOPIC, topic)
        (answer,) = self._runner.run(self._admin.describe_configs([resource]))
        return {row[0]: (row[1], row[3]) for row in answer.resources[0][4]}

    def write(self, topic: str, name: str, value: str) -> str | None:
        resource = AioResource(AioResourceType.TOPIC, topic, {name: value})
        (answer,) = self._runner.run(self._admin.alter_configs([resource]))
        code, text = answer.resources[0][:2]
        return text if code else None

    def close(self) -> None:
        self._runner.run(self._admin.close())
        self._runner.close()


MAKERS: dict[str, Callable[[str], ConfigsClient]] = {
    "confluent-kafka": Confluent,
    "kafka-python": KafkaPython,
    "aiokafka": Aiokafka,
}


@pytest.fixture(params=sorted(MAKERS))
def configs(request: pytest.FixtureRequest, quorum: Quorum) -> Iterator[ConfigsClient]:
    made = MAKERS[request.param](quorum.bootstrap)
    yield made
    made.close()


@pytest.fixture
def topic(quorum: Quorum, request: pytest.FixtureRequest) -> str:
    name = re.sub(r"[^a-zA-Z0-9-]", "-", request.node.name)
    client = ConfluentClient(quorum.bootstrap)
    client.create(name, replicas=3, configs={"cleanup.policy": "compact"})
    wait_until(lambda: name in client.names(), 10, lambda: f"{name} does not appear")
    return name


def test_configs_of_a_topic_are_read(configs: ConfigsClient, topic: str) -> None:
    wait_until(lambda: len(configs.read(topic)) == TOPIC_CONFIGS_LISTED, 10, lambda: topic)
    found = configs.read(topic)
    assert found["cleanup.policy"] == ("compact", 1)
    assert found["retention.ms"] == ("604800000", 5)


def test_a_config_is_changed_and_read_back(configs: ConfigsClient, topic: str) -> None:
    assert configs.write(topic, "retention.ms", "86400000") is None
    wait_until(
        lambda: configs.read(topic).get("retention.ms") == ("86400000", 1), 10, lambda: topic
    )


def test_a_wrong_value_is_refused_with_kafka_s_words(configs: ConfigsClient, topic: str) -> None:
    wait_until(lambda: len(configs.read(topic)) == TOPIC_CONFIGS_LISTED, 10, lambda: topic)
    before = configs.read(topic)
    assert configs.write(topic, "retention.ms", "soon") == NOT_A_NUMBER
    assert configs.write(topic, "no.such", "1") == "Unknown topic config name: no.such"
    assert configs.read(topic) == before


def test_a_broker_describes_itself_and_masks_nothing_it_should_show(quorum: Quorum) -> None:
    admin = AdminClient({"bootstrap.servers": quorum.bootstrap, "log_level": 2})
    (future,) = admin.describe_configs([ConfigResource(ResourceType.BROKER, "2")]).values()
    found = future.result(timeout=15)
    assert found["node.id"].value == "2"
    assert found["node.id"].is_read_only
    assert found["ssl.key.password"].is_sensitive
    assert found["ssl.key.password"].value is None
    assert not found["log.cleaner.threads"].is_read_only


def test_only_the_broker_itself_changes_what_is_its_own(quorum: Quorum) -> None:
    admin = AdminClient({"bootstrap.servers": quorum.bootstrap, "log_level": 2})

    def told(name: str, value: str) -> str | None:
        entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.BROKER, "2", incremental_configs=[entry])
        (future,) = admin.incremental_alter_configs([resource]).values()
        try:
            future.result(timeout=15)
        except KafkaException as refused:
            return str(refused.args[0].str())
        return None

    assert told("node.id", "7") == "Cannot update these configs dynamically: [node.id]"
    assert told("log.cleaner.threads", "2") is None


def test_credentials_are_set_and_described_without_keys(quorum: Quorum) -> None:
    admin = AdminClient({"bootstrap.servers": quorum.bootstrap, "log_level": 2})
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    change = UserScramCredentialUpsertion("alice", info, b"secret", b"salt")
    admin.alter_user_scram_credentials([change])["alice"].result(timeout=15)

    def iterations() -> Any:
        described: Any = admin.describe_user_scram_credentials()
        users = described.result(timeout=15)
        if "alice" not in users:
            return None
        return [i.iterations for i in users["alice"].scram_credential_infos]

    wait_until(lambda: iterations() == [4096], 10, lambda: str(iterations()))


def test_a_feature_that_our_brokers_do_not_serve_is_refused_by_name(quorum: Quorum) -> None:
    admin = KafkaAdminClient(bootstrap_servers=quorum.bootstrap)
    try:
        with pytest.raises(InvalidUpdateVersionError, match=r"Broker \d does not support"):
            admin.update_features({"share.version": 1})
    finally:
        admin.close()
