import uuid

import pytest
from kio.schema.broker_registration.v4.request import Feature, Listener
from msgspec.structs import replace

from metadata.image import EMPTY
from metadata.records import PartitionChangeRecord, RegisterBrokerRecord
from quorum_controller.bodies import UnregisterBrokerRequest
from tests.quorum_controller.controller_harness import (
    EPOCH,
    Harness,
    directory,
    incarnation,
    manual,
    names,
    topic,
)
from wire import api_keys
from wire.errors import ErrorCode


def feature(name, low, high):
    return Feature(name=name, min_supported_version=low, max_supported_version=high)


def listener(**more):
    fields = {"name": "P", "host": "h", "port": 1, "security_protocol": 0}
    return Listener(**(fields | more))


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({"cluster_id": "other"}, "inconsistent_cluster_id"),
        ({"incarnation_id": incarnation(77)}, "duplicate_broker_registration"),
        ({"is_migrating_zk_broker": True}, "broker_id_not_registered"),
        ({"log_dirs": ()}, "invalid_registration"),
        ({"log_dirs": (directory(1), directory(1))}, "invalid_registration"),
        ({"log_dirs": (uuid.UUID(int=99),)}, "invalid_registration"),
        ({"log_dirs": (directory(2),)}, "invalid_registration"),
        ({"listeners": ()}, "invalid_registration"),
        ({"listeners": (listener(port=0),)}, "invalid_registration"),
        ({"listeners": (listener(host=""),)}, "invalid_registration"),
        ({"listeners": (listener(security_protocol=9),)}, "invalid_registration"),
        ({"features": ()}, "unsupported_version"),
        ({"features": (feature("metadata.version", 22, 30),)}, "unsupported_version"),
    ],
)
def test_registrations_are_refused_in_kafkas_way(more, code):
    cluster = Harness().start(1, 2)
    before = cluster.controller.next_offset
    response = cluster.register(1, **more)
    assert (response.error_code, response.broker_epoch) == (ErrorCode[code], -1)
    assert cluster.controller.next_offset == before


def test_the_first_directory_id_that_is_not_reserved_is_100():
    assert Harness().register(1, log_dirs=(uuid.UUID(int=100),)).error_code == ErrorCode.none


def test_a_new_incarnation_is_fenced_with_its_offset_as_epoch():
    cluster = Harness()
    offset = cluster.controller.next_offset
    assert cluster.register(1).broker_epoch == offset
    broker = cluster.image.brokers[1]
    assert (broker.epoch, broker.registration_offset, broker.fenced) == (offset, offset, True)
    assert broker.log_dirs == (directory(1).bytes,)


def test_the_same_incarnation_keeps_its_epoch_and_state():
    cluster = Harness().start(1)
    epoch = cluster.image.brokers[1].epoch
    assert cluster.register(1, rack="new").broker_epoch == epoch
    broker = cluster.image.brokers[1]
    assert (broker.epoch, broker.fenced, broker.rack) == (epoch, False, "new")


def test_another_incarnation_waits_for_the_session_and_then_leaves_every_isr():
    cluster = Harness().start(1, 2)
    cluster.create(manual("t", (1, 2)))
    cluster.now_ms += 9_000
    assert cluster.register(1, incarnation_id=incarnation(9)).error_code == 101
    cluster.now_ms += 1
    cluster.heartbeat(2)
    offset = cluster.controller.next_offset
    response = cluster.register(1, incarnation_id=incarnation(9))
    assert names(cluster.batches[-1].records) == ["PartitionChange", "RegisterBroker"]
    assert response.broker_epoch == offset
    assert cluster.image.brokers[1].registration_offset == offset + 1
    partition = cluster.partition("t")
    assert (partition.isr, partition.leader, partition.leader_epoch) == ((2,), 2, 1)


def test_a_fenced_holder_that_never_sent_a_heartbeat_is_replaced_at_once():
    cluster = Harness()
    cluster.register(1)
    assert cluster.register(1, incarnation_id=incarnation(5)).error_code == ErrorCode.none


def test_a_fenced_holder_that_sends_heartbeats_keeps_its_id_for_a_session():
    cluster = Harness()
    cluster.register(1)
    cluster.heartbeat(1, fence=True)
    assert cluster.image.brokers[1].fenced
    cluster.now_ms += 9_000
    assert cluster.register(1, incarnation_id=incarnation(5)).error_code == 101
    cluster.now_ms += 1
    assert cluster.register(1, incarnation_id=incarnation(5)).error_code == ErrorCode.none


def test_a_fenced_holder_has_no_session_with_a_new_active_controller():
    cluster = Harness().start(1)
    cluster.tick(9_001)
    cluster.commit()
    assert cluster.image.brokers[1].fenced
    cluster.take(cluster.controller.resign())
    cluster.take(
        cluster.controller.activate(EPOCH + 1, len(cluster.log), cluster.image, cluster.now_ms, 0)
    )
    cluster.log.append(None)  # the LeaderChange record
    assert cluster.register(1, incarnation_id=incarnation(5)).error_code == ErrorCode.none


def test_a_holder_that_leaves_is_replaced_at_once_fenced_or_not():
    cluster = Harness().start(1, 2, 3)
    cluster.create(manual("t", (1, 2)))
    cluster.heartbeat(1, stop=True)
    cluster.heartbeat(3, stop=True)
    leaving, left = cluster.image.brokers[1], cluster.image.brokers[3]
    assert (leaving.in_controlled_shutdown, leaving.fenced) == (True, False)
    assert (left.in_controlled_shutdown, left.fenced) == (False, True)
    for broker_id in (1, 3):
        response = cluster.register(broker_id, incarnation_id=incarnation(5 + broker_id))
        assert response.error_code == ErrorCode.none


@pytest.mark.parametrize("level", [7, 16])
def test_directories_are_ignored_below_level_17(level):
    cluster = Harness(level)
    cluster.register(1, log_dirs=())
    cluster.heartbeat(1)
    cluster.create(topic("t"))
    assert cluster.image.brokers[1].log_dirs == ()
    assert cluster.log[-1].directories == ()


def test_a_finalized_feature_that_was_not_sent_counts_as_level_zero():
    cluster = Harness(activate=False)
    image = replace(EMPTY, features=EMPTY.features.set("metadata.version", 1))
    cluster.take(cluster.controller.activate(EPOCH, 2, image, cluster.now_ms, 0))
    assert cluster.register(1, features=(), log_dirs=()).error_code == ErrorCode.none
    (record,) = [r for r in cluster.log if isinstance(r, RegisterBrokerRecord)]
    assert [(f.name, f.max_supported_version) for f in record.features] == [("metadata.version", 1)]


def test_only_a_broker_that_read_its_registration_is_unfenced():
    cluster = Harness()
    epoch = cluster.register(1).broker_epoch
    behind = cluster.heartbeat(1, epoch - 1)
    assert (behind.is_caught_up, behind.is_fenced) == (False, True)
    waiting = cluster.heartbeat(1, epoch, fence=True)
    assert (waiting.is_caught_up, waiting.is_fenced) == (True, True)
    ready = cluster.heartbeat(1, epoch)
    assert (ready.is_caught_up, ready.is_fenced, ready.should_shut_down) == (True, False, False)
    assert names(cluster.batches[-1].records) == ["BrokerRegistrationChange"]


def test_below_level_six_the_old_records_are_written():
    cluster = Harness(4)
    cluster.register(1, log_dirs=())
    cluster.heartbeat(1)
    cluster.heartbeat(1, fence=True)
    assert names(cluster.log[-2:]) == ["UnfenceBroker", "FenceBroker"]


@pytest.mark.parametrize("broker_id", [1, 8])
def test_a_wrong_epoch_is_stale(broker_id):
    cluster = Harness().start(1)
    assert cluster.heartbeat(broker_id, 9, epoch=77).error_code == ErrorCode.stale_broker_epoch


def test_fencing_writes_partition_changes_first_and_unfencing_last():
    cluster = Harness().start(1, 2)
    cluster.create(manual("t", (1, 2)), manual("alone", (1,)))
    assert cluster.heartbeat(1, fence=True).is_fenced
    assert names(cluster.batches[-1].records) == [
        "PartitionChange",
        "PartitionChange",
        "BrokerRegistrationChange",
    ]
    assert (cluster.partition("t").isr, cluster.partition("t").leader) == ((2,), 2)
    alone = cluster.partition("alone")
    assert (alone.isr, alone.leader, alone.leader_epoch) == ((1,), -1, 1)
    assert not cluster.heartbeat(1).is_fenced
    assert names(cluster.batches[-1].records) == ["BrokerRegistrationChange", "PartitionChange"]
    assert (cluster.partition("alone").leader, cluster.partition("alone").leader_epoch) == (1, 2)


def test_a_fenced_broker_that_asks_for_shutdown_gets_it():
    cluster = Harness()
    cluster.register(1)
    response = cluster.heartbeat(1, fence=True, stop=True)
    assert (response.should_shut_down, response.is_fenced) == (True, True)


def test_a_broker_that_leads_nothing_shuts_down_at_once():
    cluster = Harness().start(1, 2)
    response = cluster.heartbeat(1, stop=True)
    assert (response.should_shut_down, response.is_fenced) == (True, True)
    assert cluster.image.brokers[1].fenced


def test_controlled_shutdown_waits_until_the_others_have_read_it():
    cluster = Harness().start(1, 2, 3)
    cluster.create(manual("t", (1, 2)))
    first = cluster.heartbeat(1, stop=True)
    assert (first.should_shut_down, first.is_fenced) == (False, False)
    assert names(cluster.batches[-1].records) == ["BrokerRegistrationChange", "PartitionChange"]
    seen = cluster.controller.next_offset - 1
    assert (cluster.partition("t").leader, cluster.partition("t").isr) == (2, (2,))
    cluster.create(topic("fresh", 4, 2))
    assert all(1 not in cluster.partition("fresh", i).replicas for i in range(4))
    cluster.heartbeat(2, seen)
    cluster.heartbeat(3, seen - 1)
    assert not cluster.heartbeat(1, stop=True).should_shut_down
    cluster.heartbeat(3, seen)
    last = cluster.heartbeat(1, stop=True)
    assert (last.should_shut_down, last.is_fenced) == (True, True)


def leaving():
    """Broker 1 in controlled shutdown; 3 has not read yet who leads instead of it."""
    cluster = Harness().start(1, 2, 3)
    cluster.create(manual("t", (1, 2)))
    unread = cluster.controller.next_offset - 1
    assert not cluster.heartbeat(1, stop=True).should_shut_down
    cluster.heartbeat(3, unread)
    broker = cluster.image.brokers[1]
    assert (broker.in_controlled_shutdown, broker.fenced) == (True, False)
    return cluster


def test_a_broker_that_is_leaving_may_be_replaced_at_once():
    """Its session is valid, but it said goodbye (ClusterControlManager.registerBroker)."""
    cluster = leaving()
    offset = cluster.controller.next_offset
    response = cluster.register(1, incarnation_id=incarnation(9))
    assert (response.error_code, response.broker_epoch) == (ErrorCode.none, offset)
    broker = cluster.image.brokers[1]
    assert (broker.fenced, broker.in_controlled_shutdown) == (True, False)
    assert not cluster.heartbeat(1).should_shut_down, "the shutdown was of the one before"
    assert not cluster.image.brokers[1].fenced


def test_a_broker_that_registers_while_it_leaves_goes_on_leaving():
    cluster = leaving()
    epoch = cluster.image.brokers[1].epoch
    response = cluster.register(1, rack="new")
    assert (response.error_code, response.broker_epoch) == (ErrorCode.none, epoch)
    broker = cluster.image.brokers[1]
    assert (broker.rack, broker.in_controlled_shutdown, broker.fenced) == ("new", True, False)
    cluster.create(topic("fresh", 4, 2))
    assert all(1 not in cluster.partition("fresh", i).replicas for i in range(4))
    cluster.heartbeat(3)
    cluster.heartbeat(2)
    assert cluster.heartbeat(1, stop=True).should_shut_down


def test_stale_brokers_are_fenced_one_after_the_other_after_a_full_session():
    cluster = Harness().start(1, 2, 3)
    cluster.tick(8_999)
    cluster.heartbeat(3)
    assert not any(b.fenced for b in cluster.image.brokers.values())
    assert cluster.controller.next_deadline_ms() <= cluster.now_ms + 2
    for _ in range(6):
        cluster.tick(1)
        cluster.commit()
    assert [cluster.image.brokers[i].fenced for i in (1, 2, 3)] == [True, True, False]


def test_a_lost_directory_takes_the_broker_out_of_its_partitions():
    cluster = Harness()
    cluster.register(1, log_dirs=(directory(1), directory(1, 1)))
    cluster.heartbeat(1)
    cluster.start(2)
    cluster.create(manual("t", (2, 1)))
    partition = cluster.partition("t")
    assert partition.directories[1] == bytes(15) + b"\x01"
    assigned = PartitionChangeRecord(
        partition_id=0,
        topic_id=cluster.image.topic_id_by_name["t"],
        directories=(partition.directories[0], directory(1).bytes),
    )
    draft = cluster.controller._draft()
    draft.emit(assigned)
    cluster.take_draft(draft)
    cluster.heartbeat(1, offline_log_dirs=(directory(1),))
    assert names(cluster.batches[-1].records) == ["PartitionChange", "BrokerRegistrationChange"]
    assert cluster.partition("t").isr == (2,)
    assert cluster.image.brokers[1].log_dirs == (directory(1, 1).bytes,)


def test_unregistering_removes_a_broker_from_every_isr():
    cluster = Harness().start(1, 2)
    cluster.create(manual("t", (1, 2)))
    gone = cluster.call(api_keys.UNREGISTER_BROKER, UnregisterBrokerRequest(broker_id=1))
    assert (gone.error_code, gone.error_message) == (ErrorCode.none, "")
    assert names(cluster.batches[-1].records) == ["PartitionChange", "UnregisterBroker"]
    assert cluster.partition("t").replicas == (1, 2)
    missing = cluster.call(api_keys.UNREGISTER_BROKER, UnregisterBrokerRequest(broker_id=999))
    assert missing.error_code == ErrorCode.broker_id_not_registered
    assert missing.error_message == "Broker ID 999 is not currently registered"


def test_many_partitions_are_fenced_in_slices_and_the_fence_record_comes_last():
    cluster = Harness().start(1, 2)
    cluster.create(topic("big", 2_500, 2))
    batch_count = len(cluster.batches)
    assert cluster.heartbeat(1, fence=True).is_fenced
    batches = cluster.batches[batch_count:]
    assert [len(batch.records) for batch in batches] == [999, 999, 503]
    kinds = names([record for batch in batches for record in batch.records])
    assert kinds == ["PartitionChange"] * 2_500 + ["BrokerRegistrationChange"]
    assert {p.leader for p in cluster.image.topic_named("big").partitions.values()} == {2}


def test_a_topic_created_between_two_slices_is_swept_too():
    cluster = Harness().start(1, 2)
    cluster.create(topic("big", 1_500, 2))
    cluster.tick(9_001)
    cluster.commit()
    cluster.heartbeat(2)
    assert not cluster.image.brokers[1].fenced
    cluster.create(manual("between", (1, 2)))
    assert cluster.partition("between").isr == (1, 2)
    for _ in range(4):
        cluster.tick()
        cluster.commit()
    assert cluster.image.brokers[1].fenced
    assert cluster.partition("between").isr == (2,)


def test_the_same_incarnation_that_registers_again_keeps_its_partitions():
    cluster = Harness(session_timeout_ms=10**9).start(1, 2)
    cluster.create(manual("t", (1, 2)))
    before, epoch = cluster.partition("t"), cluster.image.brokers[1].epoch
    assert cluster.register(1).broker_epoch == epoch
    assert cluster.partition("t") == before


def test_a_lost_directory_waits_for_the_sweep_that_the_same_heartbeat_began():
    cluster = Harness()
    cluster.register(1, log_dirs=(directory(1), directory(1, 1)))
    cluster.heartbeat(1)
    cluster.start(2)
    cluster.create(topic("big", 2_500, 2))
    batch_count = len(cluster.batches)
    cluster.heartbeat(1, fence=True, offline_log_dirs=(directory(1),))
    kinds = names([record for batch in cluster.batches[batch_count:] for record in batch.records])
    assert kinds == ["PartitionChange"] * 2_500 + ["BrokerRegistrationChange"]
    assert len(cluster.image.brokers[1].log_dirs) == 2
    cluster.heartbeat(1, fence=True, offline_log_dirs=(directory(1),))
    assert cluster.image.brokers[1].log_dirs == (directory(1, 1).bytes,)


def test_a_sweep_whose_broker_is_gone_is_answered_at_once():
    """Two requests for the same broker: the second ends what the first began."""
    cluster = Harness().start(1, 2)
    cluster.create(topic("big", 1_500, 2))
    first, second = (
        cluster.submit(api_keys.UNREGISTER_BROKER, UnregisterBrokerRequest(broker_id=1))
        for _ in range(2)
    )
    cluster.commit()
    assert 1 not in cluster.image.brokers
    assert second in cluster.answers
    assert first not in cluster.answers
    batch_count = len(cluster.batches)
    cluster.tick()
    assert len(cluster.batches) == batch_count
    assert cluster.answers[first].error_code is ErrorCode.none
