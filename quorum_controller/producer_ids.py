"""AllocateProducerIds: blocks of producer ids for brokers (KIP-730).

Source: apache/kafka: metadata/.../controller/ProducerIdControlManager.java.
"""

from typing import TYPE_CHECKING, Final

from metadata.records import ProducerIdsRecord
from quorum_controller.bodies import NO_TIME
from quorum_controller.handler_result import HandlerResult
from quorum_controller.result import Draft
from quorum_controller.services import Services
from wire.api_keys import ALLOCATE_PRODUCER_IDS
from wire.errors import ApiError, ErrorCode
from wire.messages import codec
from wire.messages.codec import Entity
from wire.types import BrokerEpoch, NodeId

if TYPE_CHECKING:
    from kio.schema.allocate_producer_ids.v0.request import AllocateProducerIdsRequest

_allocate: Final = codec.newest(ALLOCATE_PRODUCER_IDS, "response")

BLOCK_IDS: Final = 1000
_ID_MAX: Final = 2**63 - 1


def allocate_producer_ids(
    draft: Draft, request: "AllocateProducerIdsRequest", _services: Services
) -> HandlerResult | ApiError:
    """Allocate the next block to a broker; STALE_BROKER_EPOCH unless its epoch is registered."""
    broker = draft.image.brokers.get(NodeId(request.broker_id))
    if broker is None or broker.epoch != BrokerEpoch(request.broker_epoch):
        return HandlerResult(
            allocate_producer_ids_error(request, ApiError(ErrorCode.stale_broker_epoch))
        )
    start = draft.image.producer_ids or 0
    if start > _ID_MAX - BLOCK_IDS:
        return HandlerResult(
            allocate_producer_ids_error(request, ApiError(ErrorCode.unknown_server_error))
        )
    draft.emit(
        ProducerIdsRecord(
            broker_id=broker.id, broker_epoch=broker.epoch, next_producer_id=start + BLOCK_IDS
        )
    )
    return HandlerResult(
        _allocate.AllocateProducerIdsResponse(
            throttle_time=NO_TIME,
            error_code=ErrorCode.none,
            producer_id_start=start,
            producer_id_len=BLOCK_IDS,
        )
    )


def allocate_producer_ids_error(_request: "AllocateProducerIdsRequest", error: ApiError) -> Entity:
    """The response with this code and no block."""
    return _allocate.AllocateProducerIdsResponse(
        throttle_time=NO_TIME, error_code=error.code, producer_id_start=0, producer_id_len=0
    )
