"""Leaders that stand beside errors, so that clients need not ask for metadata (KIP-951).

apache/kafka: core/.../server/KafkaApis.scala (getCurrentLeader)
"""

from metadata.image import Image
from wire.messages.fields import LeaderEndpoint
from wire.types import TopicIdPartition


class CurrentLeaders:
    """The leaders that one response names, and the endpoints at which they are reached.

    Args:
        image: newest.
        listener: of the client.
    """

    def __init__(self, image: Image, listener: str) -> None:
        self._image = image
        self._listener = listener
        self._endpoints: dict[int, LeaderEndpoint] = {}

    @property
    def endpoints(self) -> tuple[LeaderEndpoint, ...]:
        """The endpoints of the leaders that were named; none of a fenced broker."""
        return tuple(self._endpoints.values())

    def name(self, key: TopicIdPartition) -> tuple[int, int]:
        """Id and epoch of the leader of a partition; -1 and -1 without the partition."""
        partition = self._image.partition(*key)
        if partition is None:
            return -1, -1
        leader_id = partition.leader
        broker = self._image.brokers.get(leader_id)
        endpoint = None if broker is None or broker.fenced else broker.endpoint(self._listener)
        if endpoint is not None and broker is not None:
            self._endpoints[leader_id] = LeaderEndpoint(
                leader_id, endpoint.host, endpoint.port, broker.rack
            )
        return leader_id, partition.leader_epoch
