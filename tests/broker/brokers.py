"""A whole broker on a disk in memory, with a driver that keeps its effects."""

from typing import TypeVar

from broker.broker import Broker
from broker.config import RecordsConfig
from broker.effects import Effect
from broker.events import Event, Now
from wire.types import DirectoryId, NodeId

LOG_DIR = "/log"
Kind = TypeVar("Kind", bound=Effect)


def config_of(**more: object) -> RecordsConfig:
    fields: dict[str, object] = {
        "node_id": NodeId(1),
        "log_dirs": (LOG_DIR,),
        "directory_ids": {LOG_DIR: DirectoryId(b"d" * 16)},
        "inter_broker_listener": "PLAINTEXT",
        **more,
    }
    return RecordsConfig(**fields)  # type: ignore[arg-type]


class Driven:
    """A broker whose time stands still between steps."""

    def __init__(self, config: RecordsConfig | None = None) -> None:
        self.now_ms = 1_000
        self.broker = Broker(config_of() if config is None else config, now=self.now)

    @property
    def now(self) -> Now:
        return Now(self.now_ms, self.now_ms + 1_000_000)

    def step(self, *events: Event) -> list[Effect]:
        return self.broker.take(events, self.now) + self.broker.settle()

    def one(self, kind: type[Kind], *events: Event) -> Kind:
        """The only effect of this kind in a step."""
        (effect,) = (each for each in self.step(*events) if isinstance(each, kind))
        return effect
