"""The records of a node beside its kernel, asked in the same thread."""

from typing import Any

from broker.events import ImagePublished
from inspection.records_side import RecordsStalledError
from metadata.delta import delta_between
from metadata.image import EMPTY
from tests.broker.brokers import Driven


class Beside:
    """The broker of a node of a simulated world, with the metadata of its kernel."""

    def __init__(self, kernel: Any) -> None:
        self.driven = Driven(kernel.config.node_id)
        self.is_stalled = False
        image = kernel.cache.image
        self.driven.step(ImagePublished(image, delta_between(EMPTY, image)))

    async def replica(self, key: Any) -> Any:
        self._check()
        return self.driven.broker.replica(key)

    async def counts(self) -> Any:
        self._check()
        return self.driven.broker.counts()

    async def coordinators(self, question: Any) -> Any:
        self._check()
        return question(self.driven.broker.coordinators)

    def _check(self) -> None:
        if self.is_stalled:
            raise RecordsStalledError("as the test says")
