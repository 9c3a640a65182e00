"""Local replicas: images become logs, partitions and fetchers, in Kafka's order."""

import pytest

from broker.config import UpkeepConfig
from broker.effects import DirectoryFailed, Lane, Ready
from broker.replicas.log_closing import _Closing
from metadata.image import NO_LEADER
from metadata.records import BrokerRegistrationChangeRecord
from replication.leader.leadership import Leadership
from replication.roles import Following, Offline
from storage.log_dir.partition_directories import create_partition_directory
from storage.log_dir.partition_metadata import read_partition_metadata
from storage.logs.log_manager import DuplicateLogError
from tests.broker.metadata_log import D1, D2, B
from tests.broker.record_hosts import A, Host, registered, with_topics
from wire.errors import ErrorCode
from wire.types import DIRECTORY_LOST, DIRECTORY_UNASSIGNED

C = b"c" * 16


# ---- start -------------------------------------------------------------------------------------


def test_a_start_without_partitions_is_ready_when_the_directories_are_read() -> None:
    host = Host(registered())
    host.publish()
    assert [(lane, name) for lane, name, _, _ in host.works] == [(Lane.LOADING, "scan")]
    assert host.taken(Ready) == []
    host.work()
    assert host.taken(Ready) == [Ready()]


def test_it_is_ready_once_when_all_partitions_of_the_first_image_have_a_role() -> None:
    host = Host(with_topics("a", partitions=2))
    host.publish()
    host.work_one()
    assert [each[0] for each in host.works] == [Lane.FILES, Lane.FILES]
    host.work_one()
    assert host.taken(Ready) == []
    host.work()
    assert len(host.taken(Ready)) == 1
    host.log.topic("b")
    host.update()
    assert host.taken(Ready) == []
    assert all(isinstance(host.partition(n).role, Leadership) for n in (0, 1))


def test_images_that_come_while_logs_load_are_applied_behind_the_first() -> None:
    host = Host(with_topics("a"))
    host.publish()
    host.log.change(0, isr=(1,), leader=1)
    host.log.topic("b")
    host.publish()
    assert host.replicas.partitions == {}
    host.work()
    assert host.partition().leader_epoch == 1
    assert host.taken(Ready) == [Ready()]
    assert (B, 0) in host.replicas.partitions


def test_a_partition_deleted_while_the_logs_load_is_gone() -> None:
    host = Host(with_topics("a"))
    host.publish()
    host.log.remove()
    host.publish()
    host.work()
    assert host.replicas.partitions == {}
    assert host.taken(Ready) == [Ready()]
    assert host.local.manager.get("a", 0) is None


@pytest.mark.parametrize("is_clean", [True, False])
def test_stop_and_start_keep_offsets_and_high_watermark(is_clean: bool) -> None:
    host = Host(with_topics("a")).started()
    host.append(3)
    assert host.stop().clean == ("/1", "/2")
    again = Host(with_topics("a"), host.vfs, clean=("/1", "/2") if is_clean else ()).started()
    partition = again.partition()
    assert (partition.log.end_offset, partition.log.high_watermark) == (3, 3)
    assert isinstance(partition.role, Leadership)
    (found, other) = again.logged("logs_found")
    assert (found["path"], found["logs"], found["clean_shutdown"]) == ("/1", 1, is_clean)
    assert (other["path"], other["logs"]) == ("/2", 0)
    assert again.logged("logs_loaded") == [{"path": "/1", "loaded": 1, "logs": 1}]
    assert again.taken(Ready) == [Ready()]


def test_as_many_logs_are_opened_at_once_as_there_are_recovery_threads() -> None:
    host = Host(with_topics("a", partitions=5)).started()
    host.stop()
    upkeep = UpkeepConfig(recovery_threads=3)
    again = Host(with_topics("a", partitions=5), host.vfs, upkeep=upkeep)
    again.publish()
    again.work_one()
    assert [(each[0], each[1]) for each in again.works] == [
        (Lane.LOADING, f"/1:{thread}") for thread in range(3)
    ]
    again.work_one(1)
    assert [each[1] for each in again.works] == ["/1:0", "/1:2", "/1:1"]
    again.work()
    assert len(again.replicas.partitions) == 5
    assert again.logged("logs_loaded")[-1]["loaded"] == 5


def test_progress_is_counted_and_logged_now_and_then() -> None:
    host = Host(with_topics("a", partitions=3)).started()
    host.stop()
    again = Host(with_topics("a", partitions=3), host.vfs, upkeep=UpkeepConfig(recovery_threads=1))
    again.publish()
    assert again.local.loading.remaining == {}
    again.work_one()
    assert again.local.loading.remaining == {"/1": 3, "/2": 0}
    again.work_one()
    assert again.local.loading.remaining == {"/1": 2, "/2": 0}
    assert again.logged("logs_loading") == []
    again._set(again.clock.now_ms + 10_000)
    again.work_one()
    assert again.logged("logs_loading") == [{"path": "/1", "loaded": 2, "logs": 3}]
    again.work()
    assert again.local.loading.remaining == {"/1": 0, "/2": 0}


def test_the_recovery_of_a_log_is_told_while_it_lasts() -> None:
    """By segments; apache/kafka: LogManager, LogLoader (`recoverLog`)."""
    host = Host(with_topics("a", partitions=2)).started()
    again = Host(with_topics("a", partitions=2), host.vfs, upkeep=UpkeepConfig(recovery_threads=2))
    again.publish()
    again.work_one()
    assert again.local.loading.remaining_segments == {
        ("/1", 0): 0,
        ("/1", 1): 0,
        ("/2", 0): 0,
        ("/2", 1): 0,
    }
    loading = again.local.loading
    task = loading._tasks["/1", 1]
    assert task is not None
    task.progress.begin(5)
    task.progress.recovered()
    assert again.local.loading.remaining_segments["/1", 1] == 4
    began_ms = again.clock.now_ms
    assert loading.next_ms() == began_ms + 10_000
    again._set(began_ms + 9_999)
    again.local.tick()
    assert again.logged("log_recovering") == []
    again._set(began_ms + 10_000)
    assert again.local.next_ms() == began_ms + 10_000
    again.local.tick()
    log = f"{task.key[0]}-{task.key[1]}"
    told = {"path": "/1", "log": log, "recovered": 1, "segments": 5}
    assert again.logged("log_recovering") == [told]
    assert loading.next_ms() == began_ms + 20_000
    again.work()
    assert again.local.loading.remaining_segments["/1", 1] == 0
    assert loading.next_ms() is None


def test_each_log_that_is_closed_is_progress() -> None:
    host = Host(with_topics("a", partitions=3)).started()
    closed: list[int] = []
    closing = _Closing(
        host.local.manager.directories["/1"], lambda: closed.append(len(closing.left))
    )
    assert len(closing.left) == 3
    closing.close_logs()
    assert closed == [2, 1, 0]


def test_directories_of_no_partition_here_are_strays() -> None:
    host = Host(with_topics("a", "b")).started()
    host.stop()
    log = registered()
    log.topic("a", replicas=(1, 2))
    log.change(0, replicas=(2,), isr=(2,), directories=(D1,), leader=2)
    log.topic("b", C)
    again = Host(log, host.vfs).started()
    names = again.vfs.list("/1")
    assert [name[:3] for name in names if name.endswith("-stray")] == ["a-0", "b-0"]
    assert "a-0" not in names
    assert read_partition_metadata(again.vfs, "/1/b-0") == C
    assert list(again.replicas.partitions) == [(C, 0)]


def test_a_directory_without_topic_id_is_a_stray_whatever_its_records() -> None:
    """Its records may be those of a deleted topic of the same name."""
    host = Host(with_topics("a", "b")).started()
    host.append()
    host.stop()
    for name in "ab":
        host.vfs.unlink(f"/1/{name}-0/partition.metadata")
    again = Host(with_topics("a"), host.vfs).started()
    assert [name[:3] for name in again.vfs.list("/1") if "stray" in name] == ["a-0", "b-0"]
    assert read_partition_metadata(again.vfs, "/1/a-0") == A
    assert again.partition().log.end_offset == 0


def test_a_directory_without_topic_id_and_records_is_a_stray_beside_the_replica() -> None:
    """The disk failed between the directory and its id; then the replica came to the other one."""
    host = Host(with_topics("a")).started()
    host.append()
    host.stop()
    host.vfs.make_directory("/2/a-0")
    again = Host(with_topics("a"), host.vfs).started()
    assert again.partition().log.end_offset == 1
    assert [name[:3] for name in again.vfs.list("/2") if "stray" in name] == ["a-0"]


def test_a_partition_in_two_log_directories_ends_the_node() -> None:
    host = Host(with_topics("a")).started()
    host.stop()
    host.vfs.make_directory("/2/a-0")
    for name in host.vfs.list("/1/a-0"):
        file = host.vfs.open(f"/2/a-0/{name}", create=True)
        file.pwrite(host.vfs.read(f"/1/a-0/{name}"), 0)
        file.close()
    again = Host(with_topics("a"), host.vfs)
    again.publish()
    with pytest.raises(DuplicateLogError):
        again.work()


def test_a_log_directory_with_a_damaged_file_is_offline_and_the_other_serves() -> None:
    vfs = Host(registered()).vfs
    file = vfs.open("/1/recovery-point-offset-checkpoint", create=True)
    file.pwrite(b"nonsense", 0)
    file.close()
    log = with_topics("a", partitions=1)
    log.topic("b", directory=D2)
    host = Host(log, vfs).started()
    (failed,) = host.taken(DirectoryFailed)
    assert (failed.path, failed.is_last) == ("/1", False)
    assert host.partition().role == Offline(ErrorCode.kafka_storage_error)
    assert isinstance(host.partition(0, B).role, Leadership)
    assert host.taken(Ready) == [Ready()]
    assert host.local.failed_log_dirs == {"/1"}


def test_a_log_that_cannot_be_opened_takes_its_directory_offline() -> None:
    host = Host(with_topics("a", partitions=3), dirs=("/1",)).started()
    host.stop()
    host.vfs.unlink("/1/a-1/00000000000000000000.log")
    host.vfs.make_directory("/1/a-1/00000000000000000000.log")
    upkeep = UpkeepConfig(recovery_threads=1)
    again = Host(with_topics("a", partitions=3), host.vfs, dirs=("/1",), upkeep=upkeep)
    again.publish()
    for _ in ("scan", "a-0", "a-1"):
        again.work_one()
    assert again.works == [], "the rest is not opened"
    (failed,) = again.taken(DirectoryFailed)
    assert (failed.path, failed.is_last) == ("/1", True)
    assert all(again.partition(n).log is None for n in range(3))


# ---- creation and placement --------------------------------------------------------------------


def test_a_new_partition_is_hosted_at_once_and_leads_when_its_log_is_open() -> None:
    host = Host(registered()).started()
    host.log.topic("a")
    host.publish()
    partition = host.partition()
    assert partition.role == Offline()
    assert [(each[0], each[1]) for each in host.works] == [(Lane.FILES, "/1")]
    assert not host.vfs.exists("/1/a-0"), "no file is made on the step thread"
    host.work()
    assert isinstance(partition.role, Leadership)
    assert read_partition_metadata(host.vfs, "/1/a-0") == A
    assert host.replicas.calls[-1] == ("check", (A, 0))


def test_metadata_that_come_while_a_log_is_created_count_when_it_is_open() -> None:
    host = Host(registered()).started()
    host.log.topic("a", replicas=(1, 2))
    host.publish()
    host.log.change(leader=2, isr=(2, 1))
    host.publish()
    assert host.replicas.fetched == {}
    host.work()
    assert host.partition().role == Following(2, 1, 1)
    assert host.replicas.fetched == {(A, 0): ("a", 2, 1)}


@pytest.mark.parametrize("directory", [DIRECTORY_UNASSIGNED, DIRECTORY_LOST, b"?" * 16])
def test_a_replica_without_a_directory_here_goes_where_fewest_are(directory: bytes) -> None:
    log = with_topics("b")
    host = Host(log).started()
    assert host.asked == []
    log.topic("a", directory=directory, partitions=2)
    host.update()
    assert [host.local.log_dir_of((A, number)) for number in (0, 1)] == ["/2", "/1"]
    assert host.asked == []
    host.pass_ms(100)
    ((_, body, answered),) = host.asked
    assert (body.broker_id, body.broker_epoch) == (1, 7)
    assert {
        (row.id_.bytes, topic.topic_id.bytes, part.partition_index)
        for row in body.directories
        for topic in row.topics
        for part in topic.partitions
    } == {(D2, A, 0), (D1, A, 1)}
    answered(None)
    host.pass_ms(199)
    assert len(host.asked) == 1
    host.pass_ms(1)
    assert len(host.asked) == 2


def test_a_log_in_another_directory_than_assigned_stays_and_is_told() -> None:
    host = Host(with_topics("a")).started()
    host.stop()
    again = Host(with_topics("a", directory=D2), host.vfs).started()
    assert again.local.log_dir_of((A, 0)) == "/1"
    again.pass_ms(100)
    ((_, body, _),) = again.asked
    assert [row.id_.bytes for row in body.directories] == [D1]


def test_nothing_is_told_about_a_log_where_it_belongs() -> None:
    host = Host(with_topics("a", directory=D2)).started()
    assert host.local.log_dir_of((A, 0)) == "/2"
    host.pass_ms(1_000)
    assert host.asked == []


@pytest.mark.parametrize(("cordoned", "path"), [("/1", "/2"), ("*", "/1"), ("", "/1")])
def test_cordoned_directories_take_no_new_log(cordoned: str, path: str) -> None:
    log = with_topics("a", directory=DIRECTORY_UNASSIGNED)
    host = Host(log, cordoned_log_dirs=cordoned).started()
    assert host.local.log_dir_of((A, 0)) == path


def test_a_disk_without_room_for_a_new_log_is_offline() -> None:
    host = Host(with_topics("b")).started()
    host.vfs.bytes_max = host.vfs.used_bytes()
    host.log.topic("a")
    host.update()
    assert [one.path for one in host.taken(DirectoryFailed)] == ["/1"]
    assert host.partition().role == Offline(ErrorCode.kafka_storage_error)
    assert host.partition(0, B).role.code is ErrorCode.kafka_storage_error


def test_a_directory_of_another_topic_id_keeps_one_partition_offline() -> None:
    host = Host(with_topics("b")).started()
    create_partition_directory(host.vfs, "/1", "a", 0, C)
    host.log.topic("a")
    host.update()
    assert host.partition().role == Offline(ErrorCode.kafka_storage_error)
    assert isinstance(host.partition(0, B).role, Leadership)
    assert host.taken(DirectoryFailed) == []
    (told,) = host.logged("log_not_created")
    assert told["log"] == "a-0"
    assert C.hex() in told["reason"]
    assert host.local.manager.log_dir_of("a", 0) is None
    assert host.local.manager.is_loaded


# ---- roles -------------------------------------------------------------------------------------


def test_a_follower_fetches_from_each_new_leader_epoch() -> None:
    host = Host(with_topics("a", replicas=(2, 1), leader=2)).started()
    assert host.replicas.fetched == {(A, 0): ("a", 2, 0)}
    host.replicas.fetched.clear()
    host.log.change(isr=(2,))
    host.update()
    assert host.replicas.fetched == {}, "another partition epoch of the same leader epoch"
    host.log.change(leader=2)
    host.update()
    assert host.replicas.fetched == {(A, 0): ("a", 2, 1)}
    host.log.change(leader=1)
    host.update()
    assert host.replicas.fetched == {}
    assert isinstance(host.partition().role, Leadership)
    host.log.change(leader=NO_LEADER)
    host.update()
    assert host.partition().role == Following(None, 3, 4)
    assert host.replicas.fetched == {}


def test_a_leader_becomes_follower_and_keeps_its_log() -> None:
    host = Host(with_topics("a", replicas=(1, 2))).started()
    host.append(2)
    host.log.change(leader=2)
    host.update()
    assert host.partition().role == Following(2, 1, 1)
    assert host.partition().log.end_offset == 2
    assert host.replicas.calls[-1] == ("check_all", (A, 0))


def test_leaders_are_made_before_followers_sorted_by_name() -> None:
    log = registered()
    log.topic("b", replicas=(1, 2))
    log.topic("a", replicas=(2, 1), leader=2, partitions=2)
    log.change(1, leader=1)
    host = Host(log).started()
    hosted = [key for call, key, *_ in host.replicas.calls if call == "host"]
    assert hosted == [(A, 1), (B, 0), (A, 0)]


def test_in_controlled_shutdown_who_is_out_of_sync_fetches_no_more() -> None:
    host = Host(with_topics("a", replicas=(2, 1), leader=2, partitions=2)).started()
    epoch = host.log.image.brokers[1].epoch
    host.log.write(
        BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=epoch, in_controlled_shutdown=1)
    )
    host.log.change(0, isr=(2,))
    host.log.change(1, leader=2)
    host.update()
    assert host.replicas.fetched == {(A, 1): ("a", 2, 1)}


# ---- deletion ----------------------------------------------------------------------------------


def test_a_deleted_topic_is_dropped_renamed_and_removed_after_its_delay() -> None:
    host = Host(with_topics("a", file_delete_delay_ms="500")).started()
    host.append()
    host.log.remove()
    host.publish()
    assert host.replicas.partitions == {}
    assert host.vfs.exists("/1/a-0"), "it is renamed off the step thread"
    host.work()
    assert [n[:3] for n in host.vfs.list("/1") if n.endswith("-delete")] == ["a-0"]
    host.pass_ms(499)
    assert any(n.endswith("-delete") for n in host.vfs.list("/1"))
    host.pass_ms(1)
    assert not any(n.startswith("a-") for n in host.vfs.list("/1"))


def test_a_name_that_comes_back_in_one_delta_is_another_log() -> None:
    host = Host(with_topics("a")).started()
    host.append(2)
    host.log.remove()
    host.log.topic("a", C)
    host.publish()
    assert [each[0] for each in host.works] == [Lane.FILES], "the new one waits for the old name"
    host.work()
    assert list(host.replicas.partitions) == [(C, 0)]
    assert host.partition(0, C).log.end_offset == 0
    assert read_partition_metadata(host.vfs, "/1/a-0") == C
    assert isinstance(host.partition(0, C).role, Leadership)


def test_a_topic_deleted_while_its_log_is_created_leaves_none() -> None:
    host = Host(registered()).started()
    host.log.topic("a")
    host.publish()
    host.log.remove()
    host.publish()
    host.log.topic("a", C)
    host.publish()
    host.log.remove(C)
    host.publish()
    host.work()
    assert host.replicas.partitions == {}
    assert host.local.manager.log_dir_of("a", 0) is None
    assert len([n for n in host.vfs.list("/1") if n.startswith("a-")]) == 1
    host.log.topic("a", b"d" * 16)
    host.update()
    assert isinstance(host.partition(0, b"d" * 16).role, Leadership)


def test_a_replica_that_is_moved_away_is_deleted() -> None:
    host = Host(with_topics("a", replicas=(1, 2), leader=2)).started()
    host.log.change(replicas=(2, 3), isr=(2,), directories=(D1, D1))
    host.update()
    assert host.replicas.partitions == {}
    assert host.replicas.fetched == {}
    assert host.local.manager.get("a", 0) is None
