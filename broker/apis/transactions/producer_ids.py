"""InitProducerId: ids of producers, of this broker's blocks or of the coordinator of transactions.

apache/kafka: core/.../server/KafkaApis.scala (handleInitProducerIdRequest),
core/.../coordinator/transaction/TransactionCoordinator.scala (handleInitProducerId), 4.3
"""

from typing import TYPE_CHECKING, Final

from broker.apis.access import Access
from broker.clients.call import Call
from broker.producer_id_blocks import ProducerIdBlocks
from coordinator.runtime.write import ProducerIdAndEpoch
from coordinator.transaction.coordinator import TransactionCoordinator
from coordinator.transaction.decisions import InitRequest
from quorum_controller.bodies import NO_TIME
from quorum_controller.security.authorization import Operation, ResourceType
from wire.api_keys import INIT_PRODUCER_ID
from wire.errors import ApiError, ErrorCode
from wire.messages import codec
from wire.types import milliseconds

if TYPE_CHECKING:
    from kio.schema.init_producer_id.v6.request import InitProducerIdRequest

NONE: Final = -1
FENCED_VERSION: Final = 2
"""First version of the other APIs of transactions whose clients know PRODUCER_FENCED."""
INIT_FENCED_VERSION: Final = 4
"""The same of InitProducerId."""


class InitProducerId:
    """Handler of InitProducerId, versions 0 to 5.

    Args:
        blocks: of the ids of this broker.
        access: asked for WRITE of the transactional id; without one for IDEMPOTENT_WRITE of the
            cluster, or WRITE of any topic.
        transactions: the coordinator of transactional ids.
    """

    def __init__(
        self, blocks: ProducerIdBlocks, access: Access, transactions: TransactionCoordinator
    ) -> None:
        self._blocks = blocks
        self._access = access
        self._transactions = transactions

    def serve(self, call: Call) -> None:
        """Answer a request, at once if it has no transactional id."""
        body: InitProducerIdRequest = call.body()
        refused = self._refusal(call, body)
        if refused is not ErrorCode.none:
            _answer(call, ApiError(refused))
        elif body.transactional_id is None:
            producer_id = self._blocks.next_id()
            loading = ApiError(ErrorCode.coordinator_load_in_progress)
            _answer(call, loading if producer_id is None else ProducerIdAndEpoch(producer_id, 0))
        else:
            is_given = body.producer_id != NONE
            expected = ProducerIdAndEpoch(body.producer_id, body.producer_epoch)
            request = InitRequest(
                milliseconds(body.transaction_timeout), expected if is_given else None
            )
            self._transactions.init_producer_id(
                str(body.transactional_id), request, lambda found: _answer(call, found)
            )

    def _refusal(self, call: Call, body: "InitProducerIdRequest") -> ErrorCode:
        """Error of a request that needs no look at its transactional id, else none.

        A producer without a transactional id that names its id and its epoch gets a new id too, as
        in Kafka. Two-phase commit is refused as by a Kafka whose
        `transaction.two.phase.commit.enable` is false.
        """
        transactional_id = body.transactional_id
        if not self._is_allowed(call, transactional_id):
            if transactional_id is None:
                return ErrorCode.cluster_authorization_failed
            return ErrorCode.transactional_id_authorization_failed
        is_half_given = (body.producer_id == NONE) != (body.producer_epoch == NONE)
        if is_half_given or transactional_id == "":
            return ErrorCode.invalid_request
        if transactional_id is not None and body.enable2_pc:
            return ErrorCode.transactional_id_authorization_failed
        is_kept = transactional_id is not None and body.keep_prepared_txn
        return ErrorCode.unsupported_version if is_kept else ErrorCode.none

    def _is_allowed(self, call: Call, transactional_id: str | None) -> bool:
        caller, access = call.caller, self._access
        if transactional_id is not None:
            return access.allows(
                caller, Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id
            )
        return access.allows_cluster(
            caller, Operation.IDEMPOTENT_WRITE
        ) or access.allows_some_topic(caller, Operation.WRITE)


def known_code(code: ErrorCode, version: int, version_min: int = FENCED_VERSION) -> ErrorCode:
    """The error as clients of this version know it."""
    if code is ErrorCode.producer_fenced and version < version_min:
        return ErrorCode.invalid_producer_epoch
    return code


def code_and_producer(
    found: ProducerIdAndEpoch | ApiError,
) -> tuple[ErrorCode, ProducerIdAndEpoch]:
    """The fields of an answer; of a refusal no producer."""
    if isinstance(found, ApiError):
        return found.code, ProducerIdAndEpoch(NONE, NONE)
    return ErrorCode.none, found


def _answer(call: Call, found: ProducerIdAndEpoch | ApiError) -> None:
    new = codec.newest(INIT_PRODUCER_ID, "response")
    code, producer = code_and_producer(found)
    call.answer(
        new.InitProducerIdResponse(
            throttle_time=NO_TIME,
            error_code=known_code(code, call.header.api_version, INIT_FENCED_VERSION),
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
        )
    )
