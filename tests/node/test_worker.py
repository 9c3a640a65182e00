"""Work in order on one thread; a node that stops does not wait for what the next start does."""

import asyncio
import threading

from node.worker import Worker


def test_in_order_with_errors_handed_over() -> None:
    async def scenario() -> None:
        done: asyncio.Queue[tuple[str, BaseException | None]] = asyncio.Queue()
        worker = Worker(asyncio.get_running_loop(), "test")

        def fail() -> None:
            raise OSError("no space")

        worker.submit(lambda: None, lambda error: done.put_nowait(("first", error)))
        worker.submit(fail, lambda error: done.put_nowait(("second", error)))
        assert await done.get() == ("first", None)
        name, error = await done.get()
        assert name == "second"
        assert str(error) == "no space"
        assert worker.close()

    asyncio.run(scenario())


def test_close_gives_up_on_work_that_takes_too_long() -> None:
    async def scenario() -> None:
        release = threading.Event()
        worker = Worker(asyncio.get_running_loop(), "test")
        worker.submit(release.wait, lambda error: None)
        assert not worker.close(wait_s=0.01)
        release.set()
        assert worker.close()

    asyncio.run(scenario())
