"""Cordoned log directories (KIP-1066): what heartbeats leave in the log, and where replicas go."""

import pytest
from kio.schema.broker_registration.v4.request import Feature
from msgspec.structs import replace

from metadata.features import record_version
from tests.quorum_controller.controller_harness import Harness, directory, manual, names, topic
from wire.errors import ErrorCode

FEATURES = (Feature(name="metadata.version", min_supported_version=7, max_supported_version=30),)


def a_cluster(level=30, brokers=(1, 2, 3), log_dirs=None):
    cluster = Harness(level)
    for broker_id in brokers:
        more = {"log_dirs": log_dirs} if log_dirs else {}
        assert cluster.register(broker_id, features=FEATURES, **more).error_code == 0
        assert not cluster.heartbeat(broker_id).is_fenced
    return cluster


def records_of(cluster, cordoned):
    count = len(cluster.batches)
    cluster.heartbeat(1, cordoned_log_dirs=cordoned)
    return [record for batch in cluster.batches[count:] for record in batch.records]


def test_a_registration_says_nothing_and_the_first_heartbeats_word_is_kept():
    cluster = a_cluster(brokers=(1,))
    assert cluster.image.brokers[1].cordoned_log_dirs is None
    assert records_of(cluster, None) == []
    (record,) = records_of(cluster, ())
    assert (record.cordoned_log_dirs, record.log_dirs, record.fenced) == ((), (), 0)
    assert record_version(record, 30) == 3
    assert cluster.image.brokers[1].cordoned_log_dirs == ()
    assert records_of(cluster, ()) == []
    assert records_of(cluster, None) == []


def test_a_change_is_one_record_whatever_the_order():
    cluster = a_cluster(brokers=(1,), log_dirs=(directory(1), directory(9)))
    (record,) = records_of(cluster, (directory(9), directory(1)))
    assert record.cordoned_log_dirs == (directory(9).bytes, directory(1).bytes)
    for same in ((directory(1), directory(9)), (directory(9), directory(1))):
        assert records_of(cluster, same) == []
    (record,) = records_of(cluster, (directory(9),))
    assert cluster.image.brokers[1].cordoned_log_dirs == (directory(9).bytes,)


def test_the_unfencing_heartbeat_carries_it_too():
    cluster = Harness(30)
    cluster.register(1, features=FEATURES)
    cluster.heartbeat(1, cordoned_log_dirs=())
    assert names(cluster.batches[-1].records) == ["BrokerRegistrationChange"] * 2


@pytest.mark.parametrize("level", [17, 29])
def test_below_4_3_nothing_is_written(level):
    cluster = a_cluster(level, brokers=(1,))
    assert records_of(cluster, (directory(1),)) == []


def test_new_replicas_avoid_a_broker_whose_directories_are_all_cordoned():
    cluster = a_cluster()
    cluster.heartbeat(2, cordoned_log_dirs=(directory(2),))
    assert cluster.create(topic("t", 12, 2)).topics[0].error_code is ErrorCode.none
    placed = cluster.image.topic_named("t").partitions
    assert {r for p in range(12) for r in placed[p].replicas} == {1, 3}
    refused = cluster.create(topic("u", 1, 3)).topics[0]
    assert refused.error_code is ErrorCode.invalid_replication_factor
    assert refused.error_message == (
        "Unable to replicate the partition 3 time(s): The target replication factor of 3 cannot "
        "be reached because only 2 broker(s) are registered or some brokers have all their log "
        "directories cordoned."
    )
    assert cluster.create(manual("m", (2, 1))).topics[0].error_code is ErrorCode.none
    assert cluster.partition("m").replicas == (2, 1)


def test_one_directory_that_is_not_cordoned_is_enough():
    cluster = a_cluster(brokers=(1,), log_dirs=(directory(1), directory(9)))
    cluster.heartbeat(1, cordoned_log_dirs=(directory(1),))
    assert cluster.create(topic("t", 1, 1)).topics[0].error_code is ErrorCode.none
    cluster.heartbeat(1, cordoned_log_dirs=(directory(1), directory(9)))
    assert cluster.create(topic("u", 1, 1)).topics[0].error_code is not ErrorCode.none


def test_a_broker_that_tells_no_directories_gets_replicas():
    (broker,) = a_cluster(brokers=(1,)).image.brokers.values()
    assert not replace(broker, cordoned_log_dirs=broker.log_dirs).has_uncordoned_directory()
    untold = replace(broker, log_dirs=(), cordoned_log_dirs=broker.log_dirs)
    assert untold.has_uncordoned_directory()


def test_a_new_registration_starts_without_a_word():
    cluster = a_cluster(brokers=(1,))
    cluster.heartbeat(1, cordoned_log_dirs=(directory(1),))
    cluster.register(1, features=FEATURES)
    assert cluster.image.brokers[1].cordoned_log_dirs is None
    assert cluster.create(topic("t", 1, 1)).topics[0].error_code is ErrorCode.none
