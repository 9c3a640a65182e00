"""`.kafka_cleanshutdown`: Kafka's bytes, and what counts as proof of a stop in order."""

import pytest

from simulator.cluster.memory_vfs import MemoryVfs
from storage.log_dir.clean_shutdown_file import (
    CleanShutdownFiles,
    decode_clean_shutdown,
    encode_clean_shutdown,
)
from storage.vfs import write_file_atomically

FILES = ("/a/.kafka_cleanshutdown", "/b/.kafka_cleanshutdown")


def disk(*contents: bytes | None) -> MemoryVfs:
    vfs = MemoryVfs()
    for path, content in zip(FILES, contents, strict=True):
        vfs.make_directory(path[:2])
        vfs.sync_directory("/")
        if content is not None:
            write_file_atomically(vfs, path, content)
    return vfs


def opened(vfs: MemoryVfs) -> CleanShutdownFiles:
    return CleanShutdownFiles(vfs, ("/a", "/b"))


def test_the_bytes_are_those_of_kafka_4_3() -> None:
    recorded = bytes.fromhex("7b2276657273696f6e223a302c2262726f6b657245706f6368223a3136367d")
    assert encode_clean_shutdown(166) == recorded
    assert decode_clean_shutdown(recorded) == 166


@pytest.mark.parametrize("content", [
    b"", b"garbled", b"[]", b"{}", b'{"brokerEpoch":"7"}', b'{"brokerEpoch":true}',
    b'{"brokerEpoch":-1}', b'{"brokerEpoch":9223372036854775808}', b"\xff\xfe", b"null",
])  # fmt: skip
def test_what_cannot_be_read_proves_nothing(content: bytes) -> None:
    assert decode_clean_shutdown(content) == -1


def test_unknown_fields_are_for_later_versions() -> None:
    assert decode_clean_shutdown(b'{"version":9,"brokerEpoch":12,"more":[]}') == 12


@pytest.mark.parametrize(("contents", "epoch"), [
    ((b'{"brokerEpoch":5}', b'{"brokerEpoch":5}'), 5),
    ((b'{"brokerEpoch":5}', b'{"brokerEpoch":6}'), -1),
    ((b'{"brokerEpoch":5}', None), -1),
    ((None, None), -1),
])  # fmt: skip
def test_all_directories_must_say_the_same(contents: tuple[bytes | None, ...], epoch: int) -> None:
    assert opened(disk(*contents)).previous_epoch == epoch


def test_a_power_failure_after_the_start_leaves_no_proof() -> None:
    vfs = disk(b'{"brokerEpoch":5}', b'{"brokerEpoch":5}')
    files = opened(vfs)
    files.remove()
    assert opened(vfs.crash()).previous_epoch == -1
    files.write(8, is_everything_sound=False)
    assert opened(vfs.crash()).previous_epoch == 8


def test_logs_that_need_repair_are_not_called_clean() -> None:
    vfs = disk(b'{"brokerEpoch":5}', None)
    files = opened(vfs)
    files.remove()
    files.write(8, is_everything_sound=False)
    assert [vfs.exists(path) for path in FILES] == [True, False]
    files.write(None, is_everything_sound=True)
    assert [vfs.read(path) for path in FILES] == [b'{"version":0,"brokerEpoch":-1}'] * 2


def test_one_directory_is_called_clean_without_the_others() -> None:
    vfs = disk(b'{"brokerEpoch":5}', None)
    files = opened(vfs)
    assert files.found_in == {FILES[0].rpartition("/")[0]}
    files.remove()
    files.write_into(FILES[1].rpartition("/")[0], 8)
    assert [vfs.exists(path) for path in FILES] == [False, True]
    assert vfs.crash().read(FILES[1]) == b'{"version":0,"brokerEpoch":8}'
