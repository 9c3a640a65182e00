"""Values of the records for the main thread: made on their own, refused when it is held up."""

import asyncio
import threading

import pytest
import uvloop

from broker.events import TimeAdvanced
from broker.replicas.replica_views import LocalReplicaView
from inspection.records_side import RecordsStalledError
from node.records.records_reader import WAITING_MAX, RecordsReader
from tests.broker.brokers import Driven
from tests.broker.metadata_log import A
from tests.node.records.test_data_loop import LIMIT_S, Running

KEY = (A, 0)


class Noting:
    """A broker that notes the thread on which it is asked."""

    def __init__(self, broker):
        self._broker = broker
        self.threads = []

    def replica(self, key):
        self.threads.append(threading.current_thread().name)
        return self._broker.replica(key)

    def counts(self):
        return self._broker.counts()

    @property
    def coordinators(self):
        self.threads.append(threading.current_thread().name)
        return self._broker.coordinators


@pytest.fixture(params=[asyncio.SelectorEventLoop, uvloop.Loop], ids=["asyncio", "uvloop"])
def running(request):
    one = Running(request.param())
    one.start()
    yield one
    one.data.close()
    for bound in one.bound:
        bound.close()


def started():
    driven = Driven()
    driven.metadata.topic()
    driven.start()
    return Noting(driven.broker)


def reader(records, running, answer_s=LIMIT_S):
    loop = asyncio.get_running_loop()
    return RecordsReader(
        records,
        loop,
        running.data.run_threadsafe,
        running.data.longest_turn,
        running.data.use,
        answer_s=answer_s,
    )


async def test_values_are_made_on_the_thread_of_the_records(running):
    records = started()
    asked = reader(records, running)
    view = await asked.replica(KEY)
    assert isinstance(view, LocalReplicaView)
    assert view.role == "leader"
    counts = await asked.counts()
    assert counts.logs.logs[0].topic == "a"
    assert 0 < counts.longest_turn_ns <= counts.longest_turn_ever_ns < LIMIT_S * 1_000_000_000
    assert counts.longest_turn_ever_ns == running.data.longest_turn.cpu_ns
    assert 0 < running.data.use.turns_ns < LIMIT_S * 1_000_000_000
    assert 0 < counts.idle_of_turns < 1
    assert 0 < counts.idle_of_cpu < 1
    assert records.threads == ["records"]
    held = await asked.coordinators(lambda views: (threading.current_thread().name, views.groups()))
    assert (held[0], held[1].partition_count) == ("records", 0)
    assert records.threads == ["records"] * 2


async def test_a_thread_that_is_held_up_is_waited_for_a_little_and_the_loop_goes_on(running):
    records, release = started(), threading.Event()
    asked = reader(records, running, answer_s=0.02)
    running.data.run_threadsafe(release.wait)
    waits = [asyncio.ensure_future(asked.replica(KEY)) for _ in range(WAITING_MAX)]
    await asyncio.sleep(0)
    assert not any(wait.done() for wait in waits), "the loop of the askers goes on"
    patient = reader(records, running)
    with pytest.raises(RecordsStalledError, match="16 questions wait"):
        await asked.counts()
    for wait in waits:
        with pytest.raises(RecordsStalledError, match=r"no answer in 0\.02 s"):
            await wait
    release.set()
    assert await patient.replica(KEY) is not None
    assert await asked.replica(KEY) is not None, "those that waited do so no more"
    running.post(TimeAdvanced())
    running.records.wait(TimeAdvanced)


async def test_an_error_is_the_askers_and_the_records_go_on(running):
    class Broken(Noting):
        def counts(self):
            raise ZeroDivisionError

    asked = reader(Broken(None), running)
    with pytest.raises(ZeroDivisionError):
        await asked.counts()
    assert await reader(started(), running).replica(KEY) is not None
    assert running.errors.empty()


async def test_who_has_gone_is_not_answered(running):
    records, release, errors = started(), threading.Event(), []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context))
    asked = reader(records, running)
    running.data.run_threadsafe(release.wait)
    gone = asyncio.ensure_future(asked.replica(KEY))
    await asyncio.sleep(0)
    gone.cancel()
    release.set()
    assert await asked.replica(KEY) is not None
    assert gone.cancelled()
    assert errors == []


async def test_a_closed_loop_answers_nobody(running):
    asked = reader(started(), running, answer_s=0.02)
    running.data.close()
    with pytest.raises(RecordsStalledError):
        await asked.counts()
