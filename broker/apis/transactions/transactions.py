"""InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn and EndTxn: the requests of producers.

AddPartitionsToTxn has two forms: up to version 3 that of a client, one transaction; from 4 on that
of brokers, several, which may only verify.

apache/kafka: core/.../server/KafkaApis.scala, 4.3
"""

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from broker.apis.access import Access
from broker.apis.named_partitions import key_of
from broker.apis.transactions.producer_ids import InitProducerId, code_and_producer, known_code
from broker.clients.call import Call, Handler
from broker.clients.request_metrics import VERIFICATION
from broker.producer_id_blocks import ProducerIdBlocks
from broker_publisher.partition_view import INTERNAL_TOPICS
from coordinator.records.kinds import CONSUMER_OFFSETS
from coordinator.runtime.shards import partition_for
from coordinator.runtime.write import ProducerIdAndEpoch
from coordinator.transaction.coordinator import EndRequest, TransactionCoordinator
from coordinator.transaction.metadata import EPOCH_BUMP_VERSION, TopicPartition
from metadata.image import Image
from quorum_controller.bodies import NO_TIME
from quorum_controller.security.authorization import Operation, ResourceType
from wire.api_keys import (
    ADD_OFFSETS_TO_TXN,
    ADD_PARTITIONS_TO_TXN,
    END_TXN,
    INIT_PRODUCER_ID,
)
from wire.errors import ApiError, ErrorCode
from wire.messages import codec
from wire.messages.codec import Body, Entity

if TYPE_CHECKING:
    from kio.schema.add_partitions_to_txn.v5.request import AddPartitionsToTxnTransaction

BROKER_VERSION: Final = 4
"""First version of AddPartitionsToTxn that only brokers send."""
_BUMP_VERSION: Final = 5
"""First version of EndTxn of clients that go on with a new epoch."""
Codes = Mapping[TopicPartition, ErrorCode]


def transaction_handlers(
    transactions: TransactionCoordinator,
    blocks: ProducerIdBlocks,
    access: Access,
    image: Callable[[], Image],
) -> dict[int, Handler]:
    """Handlers by API key.

    Args:
        transactions: the coordinator.
        blocks: of producer ids.
        access: asked for transactional ids, topics and the cluster.
        image: returns the newest image.
    """
    return {
        INIT_PRODUCER_ID: InitProducerId(blocks, access, transactions).serve,
        ADD_PARTITIONS_TO_TXN: AddPartitionsToTxn(transactions, access, image).serve,
        ADD_OFFSETS_TO_TXN: AddOffsetsToTxn(transactions, access, image).serve,
        END_TXN: EndTxn(transactions, access).serve,
    }


class EndTxn:
    """Handler of EndTxn, versions 0 to 5.

    Args:
        transactions: the coordinator.
        access: WRITE of the transactional id is asked for.
    """

    def __init__(self, transactions: TransactionCoordinator, access: Access) -> None:
        self._transactions = transactions
        self._access = access

    def serve(self, call: Call) -> None:
        """Answer a request, when its end is committed."""
        body, version = call.body(), call.header.api_version
        name = str(body.transactional_id)
        if not may_write(self._access, call, name):
            denied = ApiError(ErrorCode.transactional_id_authorization_failed)
            _answer_end(call, denied)
            return
        request = EndRequest(
            ProducerIdAndEpoch(body.producer_id, body.producer_epoch),
            body.committed,
            EPOCH_BUMP_VERSION if version >= _BUMP_VERSION else 0,
        )
        self._transactions.end_transaction(name, request, lambda found: _answer_end(call, found))


def _answer_end(call: Call, found: ProducerIdAndEpoch | ApiError) -> None:
    new = codec.newest(END_TXN, "response")
    code, producer = code_and_producer(found)
    call.answer(
        new.EndTxnResponse(
            throttle_time=NO_TIME,
            error_code=known_code(code, call.header.api_version),
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
        )
    )


class AddOffsetsToTxn:
    """Handler of AddOffsetsToTxn, versions 0 to 4.

    Args:
        transactions: the coordinator.
        access: WRITE of the transactional id and READ of the group are asked for.
        image: returns the newest image.
    """

    def __init__(
        self, transactions: TransactionCoordinator, access: Access, image: Callable[[], Image]
    ) -> None:
        self._transactions = transactions
        self._access = access
        self._image = image

    def serve(self, call: Call) -> None:
        """Answer a request, when the partition of the group is added."""
        body = call.body()
        name, group = str(body.transactional_id), str(body.group_id)
        if not may_write(self._access, call, name):
            _answer_offsets(call, ErrorCode.transactional_id_authorization_failed)
            return
        if not self._access.allows(call.caller, Operation.READ, ResourceType.GROUP, group):
            _answer_offsets(call, ErrorCode.group_authorization_failed)
            return
        image = self._image()
        topic_id = image.topic_id_by_name.get(CONSUMER_OFFSETS)
        if topic_id is None:
            _answer_offsets(call, ErrorCode.coordinator_not_available)
            return
        partition = partition_for(group, len(image.topics[topic_id].partitions))
        self._transactions.add_partitions(
            name,
            ProducerIdAndEpoch(body.producer_id, body.producer_epoch),
            frozenset({(CONSUMER_OFFSETS, partition)}),
            client_version=0,  # a client that bumps its epochs does not ask for it
            answer=lambda code: _answer_offsets(call, code),
        )


def _answer_offsets(call: Call, code: ErrorCode) -> None:
    new = codec.newest(ADD_OFFSETS_TO_TXN, "response")
    known = known_code(code, call.header.api_version)
    call.answer(new.AddOffsetsToTxnResponse(throttle_time=NO_TIME, error_code=known))


class AddPartitionsToTxn:
    """Handler of AddPartitionsToTxn, versions 0 to 5.

    Args:
        transactions: the coordinator.
        access: of clients WRITE of the transactional id and of each topic is asked for, of brokers
            CLUSTER_ACTION.
        image: returns the newest image.
    """

    def __init__(
        self, transactions: TransactionCoordinator, access: Access, image: Callable[[], Image]
    ) -> None:
        self._transactions = transactions
        self._access = access
        self._image = image

    def serve(self, call: Call) -> None:
        """Answer a request, when what it adds is committed."""
        if call.header.api_version < BROKER_VERSION:
            self._serve_client(call)
        elif self._access.allows_cluster(call.caller, Operation.CLUSTER_ACTION):
            body = call.body()
            if all(each.verify_only for each in body.transactions):
                call.kind = VERIFICATION
            self.add(body, call.answer)
        else:
            code = ErrorCode.cluster_authorization_failed
            call.answer(_response(code, {}))

    def add(self, body: Body, answered: Callable[[Entity], None]) -> None:
        """Add or verify the partitions of a broker's request; the response comes once."""
        results: dict[str, Codes] = {}
        missing = len(body.transactions)
        if not missing:
            answered(_response(ErrorCode.none, {}))
            return

        def put(name: str, codes: Codes) -> None:
            nonlocal missing
            results[name] = codes
            missing -= 1
            if not missing:
                answered(_response(ErrorCode.none, results))

        for transaction in body.transactions:
            self._add(transaction, put)

    def _add(
        self, transaction: "AddPartitionsToTxnTransaction", put: Callable[[str, Codes], None]
    ) -> None:
        name = str(transaction.transactional_id)
        producer = ProducerIdAndEpoch(transaction.producer_id, transaction.producer_epoch)
        partitions = _partitions(transaction.topics)
        unknown = self._unknown(partitions)
        if unknown:
            put(name, _none_attempted(partitions, unknown))
        elif transaction.verify_only:
            self._transactions.verify_partitions(
                name, producer, frozenset(partitions), lambda codes: put(name, codes)
            )
        else:
            self._transactions.add_partitions(
                name,
                producer,
                frozenset(partitions),
                client_version=EPOCH_BUMP_VERSION,
                answer=lambda code: put(name, dict.fromkeys(partitions, code)),
            )

    def _serve_client(self, call: Call) -> None:
        body, version = call.body_as_sent(), call.header.api_version
        name = str(body.v3_and_below_transactional_id)
        partitions = _partitions(body.v3_and_below_topics)
        if not may_write(self._access, call, name):
            code = ErrorCode.transactional_id_authorization_failed
            _answer_client(call, dict.fromkeys(partitions, code))
            return
        refused = self._refused(call, partitions)
        if refused:
            _answer_client(call, _none_attempted(partitions, refused))
            return
        self._transactions.add_partitions(
            name,
            ProducerIdAndEpoch(body.v3_and_below_producer_id, body.v3_and_below_producer_epoch),
            frozenset(partitions),
            client_version=0,
            answer=lambda code: _answer_client(
                call, dict.fromkeys(partitions, known_code(code, version))
            ),
        )

    def _unknown(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, ErrorCode]:
        image = self._image()
        return {
            partition: ErrorCode.unknown_topic_or_partition
            for partition in partitions
            if key_of(image, *partition) is None
        }

    def _refused(
        self, call: Call, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, ErrorCode]:
        """The errors of topics that a client may not write to, and of those that do not exist."""
        denied = {
            partition: ErrorCode.topic_authorization_failed
            for partition in partitions
            if partition[0] in INTERNAL_TOPICS
            or not self._access.allows_topic(call.caller, Operation.WRITE, partition[0])
        }
        return self._unknown(partitions) | denied


def may_write(access: Access, call: Call, transactional_id: str) -> bool:
    """True if the caller may use a transactional id."""
    return access.allows(
        call.caller, Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id
    )


def _partitions(topics: Iterable[Any]) -> list[TopicPartition]:
    return [(str(topic.name), int(number)) for topic in topics for number in topic.partitions]


def _none_attempted(partitions: Iterable[TopicPartition], refused: Codes) -> Codes:
    """The answer of a request of which some partitions are refused: none is added."""
    return dict.fromkeys(partitions, ErrorCode.operation_not_attempted) | dict(refused)


def _topics(new: Any, codes: Codes) -> tuple[Entity, ...]:
    rows: dict[str, list[Entity]] = {}
    for (topic, number), code in codes.items():
        rows.setdefault(topic, []).append(
            new.AddPartitionsToTxnPartitionResult(partition_index=number, partition_error_code=code)
        )
    return tuple(
        new.AddPartitionsToTxnTopicResult(name=topic, results_by_partition=tuple(found))
        for topic, found in rows.items()
    )


def _response(code: ErrorCode, results: Mapping[str, Codes]) -> Entity:
    new = codec.newest(ADD_PARTITIONS_TO_TXN, "response")
    return new.AddPartitionsToTxnResponse(
        throttle_time=NO_TIME,
        error_code=code,
        results_by_transaction=tuple(
            new.AddPartitionsToTxnResult(transactional_id=name, topic_results=_topics(new, codes))
            for name, codes in results.items()
        ),
    )


def _answer_client(call: Call, codes: Codes) -> None:
    new: Any = codec.response_module(ADD_PARTITIONS_TO_TXN, call.header.api_version)
    call.answer(
        new.AddPartitionsToTxnResponse(
            throttle_time=NO_TIME, results_by_topic_v3_and_below=_topics(new, codes)
        )
    )
