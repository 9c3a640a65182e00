"""The broker of a node in a test, which may be asked for faults at the door of requests.

It is made instead of `Broker` where a node is started with the switch (`node.records.fault_door`).
"""

from collections.abc import Callable
from functools import partial
from typing import Any
from uuid import UUID

from typing_extensions import override

from broker.broker import Broker
from broker.clients.faults import Faults
from broker.clients.faulty_front import FaultyFront
from broker.clients.front import Front
from wire.types import TopicId


class FaultyBroker(Broker):
    """A broker with faults.

    Args:
        faults: changed between two steps.
        arguments: as those of `Broker`.
        more: as those of `Broker`.
    """

    def __init__(self, faults: Faults, *arguments: Any, **more: Any) -> None:
        self._faults = faults
        super().__init__(*arguments, **more)

    @override
    def _front_kind(self) -> Callable[..., Front]:
        return partial(FaultyFront, self._faults, self._topic_name)

    def _topic_name(self, topic_id: UUID) -> str | None:
        found = self._newest_image().topics.get(TopicId(topic_id.bytes))
        return None if found is None else found.name
