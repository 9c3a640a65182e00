"""Parts of a member that need no broker."""

import pytest

from tests.peers import is_missing

try:
    from confluent_kafka import Consumer

    from jepsen.groups.member import generation_of, name_of, partition_of
except ImportError:  # an extra of the package
    Consumer = None


@pytest.fixture(autouse=True)
def _library():
    if Consumer is None:
        is_missing("confluent-kafka")


def test_the_generation_is_in_the_metadata_of_the_group():
    assert generation_of(b"CGMDv2:\x00\x00\x01\x02group\x00member\x00\x01") == 258
    assert generation_of(b"CGMDv2:\xff\xff\xff\xffgroup\x00\x00\x01") is None
    assert generation_of(b"CGMDv9:\x00\x00\x01\x02group\x00\x00\x01") is None
    assert generation_of(None) is None


def test_librdkafka_still_writes_it_so():
    consumer = Consumer({"group.id": "g", "bootstrap.servers": "127.0.0.1:1", "log_level": 0})
    metadata = consumer.consumer_group_metadata()
    consumer.close()
    assert metadata.startswith(b"CGMDv2:\xff\xff\xff\xffg\x00")


def test_names_of_partitions():
    partition = partition_of("a-b-12", 7)
    assert (partition.topic, partition.partition, partition.offset) == ("a-b", 12, 7)
    assert name_of(partition) == "a-b-12"
