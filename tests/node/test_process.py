"""The log lines of keys without effect, and the garbage collector of a node."""

import gc
import sys
import weakref
from pathlib import Path
from types import SimpleNamespace

import pytest

from broker.effects import RunWork
from broker.events import ImagePublished
from inspection.recorder import Recorder
from kernel.effects import LogLevel
from metadata.delta import MetadataDelta
from metadata.image import EMPTY
from node.clocks import now
from node.configs.config import node_config
from node.configs.environment import DEFAULT_CLUSTER_ID
from node.process import SWITCH_INTERVAL_S, _open, keep_loaded_objects, key_warnings, run_node


def test_keys_without_effect_are_told_from_keys_that_nobody_knows() -> None:
    keys = (
        "leader.imbalance.per.broker.percentage",
        "listener.name.plaintext.max.connections",
        "metadata.log.segment.min.bytes",
        "queued.max.requests",
    )
    wrong = ("listener.name.plaintext", "queued.max.request")
    lines = key_warnings((*keys, *wrong))
    assert [(line.level, line.event, line.fields) for line in lines] == [
        (LogLevel.WARN, "configuration_without_effect", {"keys": [*keys]}),
        (LogLevel.WARN, "unknown_configuration", {"keys": [*wrong]}),
    ]
    assert key_warnings(()) == []
    assert key_warnings(keys) == lines[:1]
    assert key_warnings(wrong) == lines[1:]


@pytest.mark.parametrize("broker", [None, object()])
def test_threads_of_a_node_with_records_take_the_interpreter_in_turns(
    monkeypatch: pytest.MonkeyPatch, broker: object
) -> None:
    found = []

    async def serve(*_: object) -> int:
        found.append(sys.getswitchinterval())
        return 7

    before = sys.getswitchinterval()
    monkeypatch.setattr(
        "node.process.configuration", lambda *_, **__: SimpleNamespace(unknown_keys=())
    )
    monkeypatch.setattr("node.process._open", lambda *_: (SimpleNamespace(locks=[1]), None, broker))
    monkeypatch.setattr("node.process._raise_file_limit", lambda: None)
    monkeypatch.setattr("node.process.keep_loaded_objects", lambda: None)
    monkeypatch.setattr("node.process._serve", serve)
    try:
        assert run_node(Path("any"), (), None) == 7
    finally:
        sys.setswitchinterval(before)
    assert found == [pytest.approx(before if broker is None else SWITCH_INTERVAL_S)]


class Ring:
    """An object that only the collector frees: it refers to itself."""

    def __init__(self) -> None:
        self.next = self


def is_searched(loaded: object) -> bool:
    """True if a collection looks at the object: it is in a generation that is collected."""
    return any(one is loaded for one in gc.get_objects())


def test_the_loaded_objects_are_not_searched_for_garbage_again() -> None:
    """No counts are compared: a list from a free list is no allocation for the collector."""
    thresholds = gc.get_threshold()
    gc.disable()
    try:
        gc.set_threshold(1)
        loaded = [Ring()]
        garbage = weakref.ref(Ring())
        assert is_searched(loaded)
        assert garbage() is not None
        keep_loaded_objects()
        assert gc.isenabled()
        assert gc.get_threshold() == (100_000, 20, 50)
        assert not is_searched(loaded)
        assert garbage() is None, "it was frozen with the rest"
    finally:
        gc.set_threshold(*thresholds)
        gc.enable()


class CountedLock:
    """A lock that counts how often it was held."""

    def __init__(self) -> None:
        self.count = 0

    def __enter__(self) -> None:
        self.count += 1

    def __exit__(self, *_: object) -> None:
        pass


def test_the_records_and_the_metadata_log_share_the_lock_of_their_recovery_points(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They write one file, on two threads."""
    locks: list[CountedLock] = []
    monkeypatch.setattr(
        "node.process.threading.Lock", lambda: locks.append(CountedLock()) or locks[-1]
    )
    properties = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.listener.names": "CONTROLLER",
        "listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
        "advertised.listeners": "PLAINTEXT://127.0.0.1:29100",
        "controller.quorum.voters": "1@127.0.0.1:29101",
        "log.dirs": str(tmp_path),
    }
    recorder = Recorder(0)
    config = node_config(properties)
    _, kernel, broker = _open(config, DEFAULT_CLUSTER_ID, recorder)
    (lock,) = locks
    assert lock.count == 1, "the kernel has read the file"
    kernel.close()
    assert lock.count == 2, "and has written it"
    assert broker is not None
    effects = broker.take([ImagePublished(EMPTY, MetadataDelta())], now())
    (scan,) = (each for each in effects if isinstance(each, RunWork))
    scan.work()
    assert lock.count == 3, "the records read it too"
