"""An administrator who moves the partitions that transactions write to, and coordinators."""

from collections.abc import Callable
from typing import Any, Final

from metadata.image import Image
from simulator.checks.partitions.transactions import STATE_TOPIC, TRANSACTIONAL
from simulator.records import requests
from simulator.records.clients import Cluster, PartitionClient
from wire.errors import ErrorCode

MOVED_US: Final = 1_500_000
"""Mean time between two moves."""
ELECTED_SHARE: Final = 0.4
"""Share of moves that elect the preferred leader; others place the partition anew."""


class Mover(PartitionClient):
    """Asks for moves one after the other, each once.

    Args:
        cluster: of the transactional topic.
        host: its number.
        image: gives the newest committed image.
        hit: counts coverage marks.
    """

    def __init__(
        self,
        cluster: Cluster,
        host: int,
        image: Callable[[], Image],
        hit: Callable[[str], None],
    ) -> None:
        super().__init__(cluster, host, 0)
        self._image = image
        self._hit = hit

    def start(self) -> None:
        """Move a partition some time later, again and again."""
        self.later(self._move, MOVED_US)

    def _move(self) -> None:
        if self.is_stopped:
            return
        self.start()
        topic, rng = self.rng.choice((TRANSACTIONAL, STATE_TOPIC)), self.rng
        image = self._image()
        topic_id = image.topic_id_by_name.get(topic)
        if topic_id is None:
            return
        number = rng.choice(sorted(image.topics[topic_id].partitions))
        mark = "coordinator_moved" if topic == STATE_TOPIC else "transactional_moved"
        if rng.random() < ELECTED_SHARE:
            body = requests.elect_preferred(topic, number)
            self.ask_any(requests.ELECT_LEADERS, body, lambda _: None)
            return
        brokers = self.cluster.nodes
        replicas = rng.sample(brokers, min(len(brokers), rng.choice((2, 3, 3))))

        def answered(response: Any) -> None:
            if response is not None and response.error_code is ErrorCode.none:
                self._hit(mark)

        body = requests.reassign(topic, number, replicas)
        self.ask_any(requests.ALTER_PARTITION_REASSIGNMENTS, body, answered)
