"""Settings of the broker that dynamic configs change while it runs."""

from broker.config import UpkeepConfig
from broker.largest_logs import LargestLogs
from tests.broker.metadata_log import B
from tests.broker.record_hosts import A, Host, with_topics
from tests.storage.test_unified_log import produced


def test_the_expiry_of_producers_changes_while_the_broker_runs() -> None:
    host = Host(with_topics("a", partitions=2)).started()
    wall_ms = host.clock.wall_ms
    host.partition().append_as_leader(
        produced(wall_ms, producer=7), required_acks=1, wall_ms=wall_ms, now_ms=0
    )
    host.log.broker_config("producer.id.expiration.ms", "600000")
    host.log.broker_config("producer.id.expiration.ms", "700000", "1")
    host.update()
    for key in ((A, 0), (A, 1)):
        assert host.replicas.partitions[key].log.producers.expiration_ms == 700_000
    host.partition().log.producers.expiration_ms = 5
    host.log.topic("b", topic_id=B)
    host.update()
    assert host.partition().log.producers.expiration_ms == 5, "the setting is no other one"
    assert host.partition(topic_id=B).log.producers.expiration_ms == 700_000
    host.partition().log.producers.expiration_ms = 700_000
    host.pass_ms(700_000)
    assert len(host.partition().log.producers) == 1, "the check behind it forgets it"
    host.pass_ms(600_000)
    assert len(host.partition().log.producers) == 0
    host.log.broker_config("producer.id.expiration.ms", None, "1")
    host.log.broker_config("producer.id.expiration.ms", None)
    host.update()
    assert host.partition().log.producers.expiration_ms == UpkeepConfig().producer_expiration_ms


def test_settings_do_not_replay_a_log_that_was_truncated() -> None:
    """A replay reads the disk: it goes on in pieces, where its errors are known."""
    host = Host(with_topics("a")).started()
    for sequence in range(3):
        batch = produced(host.clock.wall_ms, producer=7, sequence=sequence)
        host.partition().append_as_leader(
            batch, required_acks=1, wall_ms=host.clock.wall_ms, now_ms=0
        )
    log = host.partition().log
    log.truncate_to(2, host.clock.wall_ms)
    assert log.is_replaying
    host.log.broker_config("producer.id.expiration.ms", "700000", "1")
    host.log.config("a", **{"segment.bytes": "9000000"})
    host.update()
    assert log.is_replaying
    assert log.known_producers.expiration_ms == 700_000
    settings_of = host.local.settings.log
    assert len(LargestLogs().look([(("a", 0), log)], lambda _: log, settings_of).logs) == 1
    assert log.is_replaying


def test_partitions_are_shared_anew_by_another_number_of_fetchers() -> None:
    host = Host(with_topics("a", replicas=(2, 1), leader=2, partitions=2)).started()
    assert (host.replicas.count, host.called("move")) == (1, [])
    host.log.broker_config("num.replica.fetchers", "3")
    host.update()
    assert host.replicas.count == 3
    assert host.called("move") == [("move", (A, 0), "a", 0), ("move", (A, 1), "a", 0)]
    host.log.broker_config("log.retention.ms", "5")
    host.update()
    host.log.broker_config("num.replica.fetchers", "many", "1")
    host.update()
    assert len(host.called("move")) == 2
    host.log.broker_config("num.replica.fetchers", None)
    host.update()
    assert host.replicas.count == 1


def test_the_first_image_sets_the_number_of_recovery_threads() -> None:
    host = Host(with_topics("a", partitions=5)).started()
    host.stop()
    log = with_topics("a", partitions=5)
    log.broker_config("num.recovery.threads.per.data.dir", "3")
    again = Host(log, host.vfs, upkeep=UpkeepConfig(recovery_threads=1))
    again.publish()
    again.work_one()
    assert [each[1] for each in again.works] == ["/1:0", "/1:1", "/1:2"]
