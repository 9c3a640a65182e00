"""Producer ids of this broker, out of blocks that the active controller allocates to it.

A request that finds no id is to be answered COORDINATOR_LOAD_IN_PROGRESS, which producers retry;
it asks for the next block, as does the id at 90 % of a block, so that most producers never wait.

    INV-PI-1  an id is given once: a block lies behind the one before it

apache/kafka: transaction-coordinator/.../RPCProducerIdManager.java
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, cast

from broker.awaited import Asks
from network.clock import Clock
from wire.api_keys import ALLOCATE_PRODUCER_IDS
from wire.errors import ErrorCode
from wire.messages import codec
from wire.types import BrokerEpoch, NodeId

if TYPE_CHECKING:
    from kio.schema.allocate_producer_ids.v0.response import AllocateProducerIdsResponse

PREFETCH_PERCENT: Final = 90
RETRY_MS: Final = 50
"""Pause after a refusal, in which producers are told to retry without another request."""
_ID_END_MAX: Final = (1 << 63) - 1


class ProducerIdBlocks:
    """The block that ids are taken from, and the one after it.

    Args:
        node_id: of this broker.
        broker_epoch: returns that of its registration.
        clock: of the broker.
        asks: requests to the active controller.
    """

    def __init__(
        self,
        node_id: NodeId,
        broker_epoch: Callable[[], BrokerEpoch],
        clock: Clock,
        asks: Asks,
    ) -> None:
        self._node_id = node_id
        self._broker_epoch = broker_epoch
        self._clock = clock
        self._asks = asks
        self._block = range(0)
        self._next_id = 0
        self._next_block: range | None = None
        self._is_asking = False
        self._retry_ms = 0

    def next_id(self) -> int | None:
        """A producer id that nobody has; None while the next block is awaited."""
        if self._next_id == self._block.stop:
            if self._next_block is None:
                self._ask_for_block()
                return None
            self._block, self._next_block = self._next_block, None
            self._next_id = self._block.start
        producer_id = self._next_id
        assert producer_id in self._block, f"INV-PI-1 {producer_id=} {self._block=}"
        self._next_id += 1
        if producer_id == self._block.start + len(self._block) * PREFETCH_PERCENT // 100:
            self._ask_for_block()
        return producer_id

    def _ask_for_block(self) -> None:
        assert self._next_block is None, "the next block is here"
        if self._is_asking or self._clock.now_ms < self._retry_ms:
            return
        self._is_asking = True
        new = codec.newest(ALLOCATE_PRODUCER_IDS, "request")
        body = new.AllocateProducerIdsRequest(
            broker_id=self._node_id, broker_epoch=self._broker_epoch()
        )
        self._asks.ask(ALLOCATE_PRODUCER_IDS, body, self._on_answer)

    def _on_answer(self, answer: object | None) -> None:
        assert self._is_asking, "an answer that was not asked for"
        self._is_asking = False
        block = None
        if answer is not None:
            block = _allocated(cast("AllocateProducerIdsResponse", answer))
        if block is None or block.start < self._block.stop:
            self._retry_ms = self._clock.now_ms + RETRY_MS
        else:
            self._next_block = block


def _allocated(answer: "AllocateProducerIdsResponse") -> range | None:
    """The allocated block; None for a refusal, and for one that holds no ids."""
    start, count = int(answer.producer_id_start), int(answer.producer_id_len)
    if answer.error_code is not ErrorCode.none or not 0 < count <= _ID_END_MAX - start:
        return None
    return range(start, start + count)
