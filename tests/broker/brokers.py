"""A whole broker on a disk in memory, with a driver that runs its work and keeps its effects."""

import random
from collections.abc import Iterable, Mapping
from itertools import chain
from types import MappingProxyType
from typing import Any, TypeVar

from broker.broker import Broker
from broker.config import RecordsConfig
from broker.effects import Effect, RunWork
from broker.events import (
    BrokerEpochChanged,
    ConnectionOpened,
    Event,
    FramesReceived,
    ImagePublished,
    Now,
    WorkDone,
)
from network.memory_pool import counted_bytes_of
from simulator.cluster.memory_vfs import MemoryVfs
from tests.broker.fronts import LISTENER, content
from tests.broker.metadata_log import D1, MetadataLog
from wire.messages import codec
from wire.messages.codec import Entity
from wire.types import BrokerEpoch, DirectoryId, NodeId

LOG_DIR = "/log"
NO_DIRS: Mapping[str, DirectoryId] = MappingProxyType({})
EPOCH = BrokerEpoch(7)
Kind = TypeVar("Kind", bound=Effect)


class Guard:
    """A lock that counts how often it was held."""

    def __init__(self) -> None:
        self.count = 0

    def __enter__(self) -> None:
        self.count += 1

    def __exit__(self, *_: object) -> None:
        pass


class Driven:
    """A broker whose time stands still between steps."""

    def __init__(
        self,
        node_id: int = 1,
        vfs: MemoryVfs | None = None,
        more_dirs: Mapping[str, DirectoryId] = NO_DIRS,
        *,
        is_clean: bool = False,
        **settings: Any,
    ) -> None:
        self.now_ms = 1_000
        self.read_ns: list[int] = []
        """Times at which the clock of handlers is read next; 0 without any."""
        self.vfs = MemoryVfs() if vfs is None else vfs
        self.directory_ids = {LOG_DIR: D1, **more_dirs}
        for path in self.directory_ids:
            self.vfs.make_directory(path)
        self.guard = Guard()
        self.metadata = MetadataLog()
        config = RecordsConfig(
            node_id=NodeId(node_id),
            log_dirs=tuple(self.directory_ids),
            directory_ids=self.directory_ids,
            inter_broker_listener=LISTENER,
            **settings,
        )
        self.broker = Broker(
            config,
            self.vfs,
            random.Random(1),
            now=self.now,
            clean_log_dirs=frozenset(self.directory_ids if is_clean else ()),
            guards={LOG_DIR: self.guard},
            nanoseconds=lambda: self.read_ns.pop(0) if self.read_ns else 0,
        )
        assert self.broker.next_deadline_ms() == self.now_ms, "it steps at once"
        self.step(BrokerEpochChanged(EPOCH))

    @property
    def now(self) -> Now:
        return Now(self.now_ms, self.now_ms + 1_000_000)

    def step(self, *events: Event) -> list[Effect]:
        """One step, then those in which its work ends; frames come with their memory."""
        self.take_memory(events)
        effects = self.broker.take(events, self.now) + self.broker.settle()
        ends: list[Event] = [
            WorkDone(each.token, _error_of(each)) for each in effects if isinstance(each, RunWork)
        ]
        return effects + self.step(*ends) if ends else effects

    def take_memory(self, events: Iterable[Event]) -> None:
        """Take the memory of received frames, whether there is room or not."""
        received = [event.frames for event in events if isinstance(event, FramesReceived)]
        for frame in chain.from_iterable(received):
            self.broker.memory.used_bytes += counted_bytes_of(frame)

    def one(self, kind: type[Kind], *events: Event) -> Kind:
        """The only effect of this kind in a step."""
        (effect,) = (each for each in self.step(*events) if isinstance(each, kind))
        return effect

    def publish(self) -> list[Effect]:
        return self.step(ImagePublished(*self.metadata.take()))

    def start(self) -> None:
        """Register, and publish what is in the metadata so far."""
        self.metadata.register(directories=tuple(self.directory_ids.values()))
        self.publish()

    def connect(self, connection_id: int = 1) -> None:
        self.step(ConnectionOpened(connection_id, LISTENER, "127.0.0.1"))

    def request(self, api_key: int, version: int, body: Entity) -> list[Effect]:
        frame = bytearray(codec.encode_request(api_key, version, 5, "client", body))
        return self.step(FramesReceived(1, [frame]))


def _error_of(work: RunWork) -> BaseException | None:
    try:
        work.work()
    except Exception as error:  # noqa: BLE001 - as a driver does
        return error
    return None


def response(api_key: int, version: int, parts: Any) -> Any:
    """The body of a response frame."""
    correlation_id, body = codec.decode_response(api_key, version, content(parts)[4:])
    assert correlation_id == 5
    return body
