"""Read-ahead: one thread for each log directory, so that a stuck disk holds up no other."""

import asyncio
import threading

from node.records.read_ahead import ReadAhead
from simulator.cluster.memory_vfs import MemoryVfs
from storage.os_vfs import OsFile, OsVfs


class Disk:
    """A log directory whose reads wait until `go` is set; notes the threads that read."""

    def __init__(self, path):
        self.go = threading.Event()
        self.readers = []
        self.path = str(path)

    def file(self, partition):
        disk = self

        class File(OsFile):
            def share(self):
                return self

            def pread(self, size, position):
                disk.readers.append((threading.current_thread().name, position))
                assert disk.go.wait(20)
                return b"x" * size

        return File(f"{self.path}/{partition}/0.log", None)


def test_a_stuck_disk_holds_up_no_other():
    async def scenario():
        loop = asyncio.get_running_loop()
        stuck, sound = Disk("/a"), Disk("/b")
        sound.go.set()
        read_ahead, ends = ReadAhead(loop), asyncio.Queue()
        for position, partition in enumerate(("t-0", "t-1")):
            read_ahead.fill(stuck.file(partition), position, 1, lambda: ends.put_nowait("stuck"))
        read_ahead.fill(sound.file("t-2"), 2, 1, lambda: ends.put_nowait("sound"))
        assert await asyncio.wait_for(ends.get(), 20) == "sound"
        assert ends.empty()
        assert len(stuck.readers) <= 1
        stuck.go.set()
        assert [await asyncio.wait_for(ends.get(), 20) for _ in range(2)] == ["stuck"] * 2
        assert stuck.readers == [("read-ahead /a", 0), ("read-ahead /a", 1)]
        assert sound.readers == [("read-ahead /b", 2)]
        read_ahead.close()

    asyncio.run(scenario())


def test_a_thread_begins_with_the_first_read_of_its_directory(tmp_path):
    async def scenario():
        read_ahead = ReadAhead(asyncio.get_running_loop())
        assert not read_ahead._workers
        file = MemoryVfs().open("/0.log", create=True)
        done = asyncio.Event()
        read_ahead.fill(file, 0, 1, done.set)
        await asyncio.wait_for(done.wait(), 20)
        (tmp_path / "t-0").mkdir()
        done.clear()
        real = OsVfs().open(f"{tmp_path}/t-0/0.log", create=True)
        read_ahead.fill(real, 0, 1, done.set)
        await asyncio.wait_for(done.wait(), 20)
        assert list(read_ahead._workers) == ["", str(tmp_path)]
        read_ahead.close()

    asyncio.run(scenario())
