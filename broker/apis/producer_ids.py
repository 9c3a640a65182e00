"""InitProducerId: ids of producers without transactions; transactions are refused.

No broker is the coordinator of a transactional id yet, which FindCoordinator says to whoever asks
it first, as clients do. Here the same POLICY_VIOLATION is answered: clients end with it, while
NOT_COORDINATOR would send them back to look for a coordinator.

apache/kafka: core/.../server/KafkaApis.scala (handleInitProducerIdRequest),
core/.../coordinator/transaction/TransactionCoordinator.scala (handleInitProducerId)
"""

from typing import TYPE_CHECKING, Final

from broker.apis.access import Access
from broker.clients.call import Call
from broker.producer_id_blocks import ProducerIdBlocks
from quorum_controller.bodies import NO_TIME
from quorum_controller.security.authorization import Operation, ResourceType
from wire.api_keys import INIT_PRODUCER_ID
from wire.errors import ErrorCode
from wire.messages import codec

if TYPE_CHECKING:
    from kio.schema.init_producer_id.v6.request import InitProducerIdRequest

NONE: Final = -1
TRANSACTIONS_REFUSED: Final = ErrorCode.policy_violation


class InitProducerId:
    """Handler of InitProducerId, versions 0 to 5.

    Args:
        blocks: of the ids of this broker.
        access: asked for WRITE of the transactional id; without one for IDEMPOTENT_WRITE of the
            cluster, or WRITE of any topic.
    """

    def __init__(self, blocks: ProducerIdBlocks, access: Access) -> None:
        self._blocks = blocks
        self._access = access

    def serve(self, call: Call) -> None:
        """Answer a request."""
        body = call.body()
        code = self._refusal(call, body)
        producer_id = self._blocks.next_id() if code is ErrorCode.none else None
        if code is ErrorCode.none and producer_id is None:
            code = ErrorCode.coordinator_load_in_progress
        new = codec.newest(INIT_PRODUCER_ID, "response")
        call.answer(
            new.InitProducerIdResponse(
                throttle_time=NO_TIME,
                error_code=code,
                producer_id=NONE if producer_id is None else producer_id,
                producer_epoch=NONE if producer_id is None else 0,
            )
        )

    def _refusal(self, call: Call, body: "InitProducerIdRequest") -> ErrorCode:
        """Error of a request that is not answered with an id, else none.

        A producer that names both its id and its epoch gets a new id too, as in Kafka.
        """
        transactional_id = body.transactional_id
        if not self._is_allowed(call, transactional_id):
            if transactional_id is None:
                return ErrorCode.cluster_authorization_failed
            return ErrorCode.transactional_id_authorization_failed
        is_half_given = (body.producer_id == NONE) != (body.producer_epoch == NONE)
        if is_half_given or transactional_id == "":
            return ErrorCode.invalid_request
        return ErrorCode.none if transactional_id is None else TRANSACTIONS_REFUSED

    def _is_allowed(self, call: Call, transactional_id: str | None) -> bool:
        caller, access = call.caller, self._access
        if transactional_id is not None:
            return access.allows(
                caller, Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id
            )
        return access.allows_cluster(
            caller, Operation.IDEMPOTENT_WRITE
        ) or access.allows_some_topic(caller, Operation.WRITE)
