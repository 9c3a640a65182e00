"""The suites: whose, at which version, what they need to run."""

from collections.abc import Mapping
from typing import Final

import msgspec

KAFKA_VERSION: Final = "4.3.1"
"""The version of Kafka that suites are told; some tests ask for a least or a most."""
CHECKOUT: Final = "{checkout}"
"""Stands for the folder of the suite's checkout in `requirements`."""


class Suite(msgspec.Struct, frozen=True, kw_only=True):
    """One project's tests."""

    name: str
    repository: str
    """On GitHub, OWNER/NAME."""
    tag: str
    requirements: tuple[str, ...]
    """For pip, with the project itself at this version."""
    copied: tuple[str, ...]
    """Files and folders of the checkout that the tests need; not the project's own package, of
    which the installed wheel is tested."""
    arguments: tuple[str, ...]
    """For pytest: which tests, options of the suite."""
    conftest: str = ""
    """Name of the conftest module whose fixtures are replaced; "" for none."""
    environment: Mapping[str, str] = {}
    nodes: int = 1
    configs: Mapping[str, str] = {}
    """Of the broker, as the suite's own set-up has them."""
    port: int | None = None
    """At which the suite expects the broker; None: it is told."""


ACLS: Final = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}
PYTEST: Final = ("pytest", "pytest-asyncio", "pytest-timeout")

AIOKAFKA: Final = Suite(
    name="aiokafka",
    repository="aio-libs/aiokafka",
    tag="v0.14.0",
    requirements=(
        "aiokafka[lz4,snappy,zstd]==0.14.0", "pytest==9.0.2", "pytest-asyncio==1.3.0",
        "pytest-mock==3.15.1", "pytest-timeout", "docker==7.1.0",
        "async-timeout==5.0.1", "cramjam==2.11.0",
    ),
    copied=("tests", "pyproject.toml"),
    arguments=("tests", f"--docker-image=kraftline/kafka:2.13_{KAFKA_VERSION}", "--timeout=180"),
    conftest="tests.conftest",
    configs={"num.partitions": "2"},
)  # fmt: skip

KAFKA_PYTHON: Final = Suite(
    name="kafka-python",
    repository="dpkp/kafka-python",
    tag="3.0.11",
    requirements=(
        "kafka-python[crc32c,lz4,snappy,zstd]==3.0.11", "py", "pytest", "pytest-mock",
        "pytest-timeout", "xxhash",
    ),
    copied=("test", "servers", "pyproject.toml"),
    arguments=("test/integration",),
    environment={"KAFKA_VERSION": KAFKA_VERSION, "KAFKA_ROOT": "."},  # a folder, nothing in it
    configs={
        "num.partitions": "4", "replica.lag.time.max.ms": "1000", "log.cleaner.enable": "false",
        "offsets.topic.num.partitions": "2", "group.min.session.timeout.ms": "1000",
        **ACLS,
    },
)  # fmt: skip

FASTSTREAM: Final = Suite(
    name="FastStream",
    repository="ag2ai/faststream",
    tag="0.7.4",
    requirements=(
        "faststream[kafka,confluent,cli]==0.7.4", "dirty-equals", "httpx", "pytest==9.0.3",
        "pytest-asyncio==1.3.0", "pytest-rerunfailures", "pytest-timeout", "freezegun", "fastapi",
        "pydantic-settings", "PyYAML", "email-validator", "msgspec", "uvicorn", "psutil",
        "prometheus-client", "opentelemetry-sdk",
    ),
    copied=("tests", "docs/docs_src", "examples", "pyproject.toml"),
    arguments=(
        "tests/brokers/kafka", "tests/brokers/confluent", "-m", "connected",
        "--ignore-glob=*/test_misconfigure.py",  # asks for a client of NATS, not for a broker
    ),
    port=9092,
)  # fmt: skip

CONFLUENT: Final = Suite(
    name="confluent-kafka-python",
    repository="confluentinc/confluent-kafka-python",
    tag="v2.15.0",
    requirements=(
        "confluent-kafka[schemaregistry,avro,json,protobuf]==2.15.0", *PYTEST, "requests-mock",
        "respx", "async-timeout", f"{CHECKOUT}/tests/trivup/trivup-0.14.0.tar.gz",
    ),
    copied=("tests",),
    arguments=(
        "tests/integration/admin", "tests/integration/consumer", "tests/integration/producer",
        "--asyncio-mode=auto", "--timeout=180",
    ),
    configs={**ACLS, "super.users": "User:ANONYMOUS"},
)  # fmt: skip

CONFLUENT_CONSUMER: Final = msgspec.structs.replace(
    CONFLUENT,
    name="confluent-kafka-python, KIP-848",
    arguments=(
        "tests/integration/admin/test_basic_operations.py",
        "tests/integration/admin/test_incremental_alter_configs.py",
        "tests/integration/consumer", "tests/integration/producer", "--asyncio-mode=auto",
        "--timeout=180",
    ),
    environment={"TEST_CONSUMER_GROUP_PROTOCOL": "consumer"},
)  # fmt: skip

QUIXSTREAMS: Final = Suite(
    name="Quix Streams",
    repository="quixio/quix-streams",
    tag="v3.25.0",
    requirements=(
        "quixstreams[avro,protobuf]==3.25.0", *PYTEST, "testcontainers==4.13.2", "docker>=7.1.0",
    ),
    copied=("tests",),
    arguments=(
        "tests/test_quixstreams/test_app.py", "tests/test_quixstreams/test_checkpointing.py",
        "tests/test_quixstreams/test_internal_consumer",
        "tests/test_quixstreams/test_internal_producer.py", "tests/test_quixstreams/test_kafka",
        "tests/test_quixstreams/test_models/test_topics",
        "tests/test_quixstreams/test_sources/test_core",
        "tests/test_quixstreams/test_state/test_recovery", "--timeout=180",
    ),
    conftest="tests.conftest",
    configs={
        "group.initial.rebalance.delay.ms": "10", "transaction.state.log.num.partitions": "1",
        "log.retention.ms": "-1",
    },
)  # fmt: skip

SUITES: Final = (AIOKAFKA, KAFKA_PYTHON, FASTSTREAM, CONFLUENT, CONFLUENT_CONSUMER, QUIXSTREAMS)
