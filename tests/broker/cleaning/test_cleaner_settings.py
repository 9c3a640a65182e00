"""Kafka's keys of the log cleaner, as the broker uses them."""

import math

import pytest

from broker.cleaning.cleaner_settings import CleanerSettings, cleaner_settings
from metadata.image import EMPTY
from node.configs.config import node_config
from node.configs.records_config import check_records
from node.errors import ConfigError
from tests.broker.metadata_log import MetadataLog


def settings(**properties: str) -> CleanerSettings:
    given = {f"log.cleaner.{name.replace('_', '.')}": text for name, text in properties.items()}
    return cleaner_settings(EMPTY, 1, given)


def test_defaults_are_kafkas() -> None:
    one = settings()
    assert (one.is_enabled, one.threads, one.backoff_ms) == (True, 1, 15_000)
    assert (one.limits.slots, one.limits.keys_max) == (5592405, 5033164)
    assert one.limits.read_bytes == 262_144
    assert one.bytes_per_second == 1.7976931348623157e308


def test_what_all_threads_share_is_divided() -> None:
    one = settings(
        threads="4",
        io_max_bytes_per_second="1000",
        dedupe_buffer_size="9600",
        io_buffer_size="80000",
    )
    assert one.threads == 4
    assert one.bytes_per_second == 250.0
    assert (one.limits.slots, one.limits.keys_max) == (100, 90)
    assert one.limits.read_bytes == 10_000


def test_values_that_kafka_takes_and_nothing_could_run_with() -> None:
    assert not settings(enable="false").is_enabled
    assert not settings(threads="0").is_enabled
    assert settings(dedupe_buffer_size="1").limits.keys_max == 1
    assert settings(io_buffer_load_factor="0").limits.keys_max == 1
    assert settings(io_buffer_load_factor="7").limits.keys_max == 5592405
    assert settings(io_buffer_size="0").limits.read_bytes == 4096
    assert settings(io_max_bytes_per_second="0").bytes_per_second == math.inf
    assert settings(backoff_ms="0").backoff_ms == 1


def test_dynamic_values_are_before_those_of_the_file_and_bad_ones_are_passed_over() -> None:
    log = MetadataLog()
    log.broker_config("log.cleaner.backoff.ms", "7")
    log.broker_config("log.cleaner.backoff.ms", "8", "1")
    log.broker_config("log.cleaner.threads", "many")
    image, _ = log.take()
    given = {"log.cleaner.backoff.ms": "9", "log.cleaner.threads": "3"}
    assert cleaner_settings(image, 1, given).backoff_ms == 8
    assert cleaner_settings(image, 2, given).backoff_ms == 7
    assert cleaner_settings(image, 2, given).threads == 3


BROKER = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.quorum.voters": "1@localhost:9093",
    "controller.listener.names": "CONTROLLER",
    "listeners": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "log.dirs": "/d",
}


def test_a_buffer_below_1_mb_for_a_thread_is_refused_at_the_start() -> None:
    key = "log.cleaner.dedupe.buffer.size"
    check_records(node_config({**BROKER, key: str((1 << 20) + 1)}))
    check_records(node_config({**BROKER, key: str(1 << 20), "log.cleaner.threads": "0"}))
    for size, threads in ((1 << 20, 1), (2 << 20, 2)):
        properties = {**BROKER, key: str(size), "log.cleaner.threads": str(threads)}
        with pytest.raises(ConfigError, match="must be at least 1MB per cleaner thread"):
            check_records(node_config(properties))
