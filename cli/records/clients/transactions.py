"""Transactions of a producer, one after the other, as of transaction.version 2 (KIP-890).

Leaders add their partitions by themselves, and each end gives the next epoch: older clusters, where
a client must announce the partitions, are refused. (apache/kafka: clients/.../producer/internals/
TransactionManager.java, 4.3)
"""

from datetime import timedelta
from typing import Final

from cli.connect import ClusterError, check, newest
from cli.kafka_errors import message_of
from cli.records.clients.clock import Clock
from cli.records.clients.coordinator_calls import initialized, of_coordinator
from cli.records.clients.records_api import RecordsApi

API_VERSIONS: Final = 18
END_TXN: Final = 26
VERSION: Final = 2
"""Level of transaction.version that is spoken."""
TOO_OLD: Final = "transactions need transaction.version 2, which this cluster has at {}"
FAILED: Final = "Cannot execute transactional method because we are in an error state: {}"


class Transactions:
    """The transactions of one transactional id."""

    def __init__(
        self, api: RecordsApi, transactional_id: str, timeout_ms: int, clock: Clock
    ) -> None:
        """Fence the producer before, and take its next epoch.

        Raises:
            ClusterError: the cluster is too old, or the coordinator refuses.
        """
        self.transactional_id = transactional_id
        self._api = api
        self._clock = clock
        level = _level(api)
        if level < VERSION:
            raise ClusterError(TOO_OLD.format(level))
        timeout = timedelta(milliseconds=timeout_ms)
        self.producer_id, self.producer_epoch = initialized(api, transactional_id, timeout, clock)
        self._has_records = False
        self._failure: str | None = None

    def delivered(self) -> None:
        """Note that a leader has records of the open transaction."""
        self._has_records = True

    def failed(self, reason: str) -> None:
        """Note that records may be lost, or be there: the open transaction is to be aborted."""
        self._has_records = True
        self._failure = self._failure or reason

    def commit(self) -> None:
        """Commit the open transaction, of which everything is delivered; one without records ends.

        Raises:
            ClusterError: a record had failed, and it is aborted; or the coordinator refuses.
        """
        failure = self._failure
        if self._has_records:
            self._end(is_commit=failure is None)
        if failure is not None:
            raise ClusterError(FAILED.format(failure))

    def _end(self, *, is_commit: bool) -> None:
        request = newest(END_TXN).EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            committed=is_commit,
        )
        _, answer = of_coordinator(
            self._api,
            self.transactional_id,
            lambda node: self._api.call(END_TXN, request, node),
            self._clock,
        )
        if answer.error_code:
            raise ClusterError(message_of(int(answer.error_code)))
        self.producer_id = int(answer.producer_id)
        self.producer_epoch = int(answer.producer_epoch)
        self._has_records = False


def _level(api: RecordsApi) -> int:
    """Finalized level of transaction.version."""
    request = newest(API_VERSIONS).ApiVersionsRequest(
        client_software_name="kraftline-cli", client_software_version="1"
    )
    answer = check(api.call(API_VERSIONS, request))
    levels = {str(row.name): int(row.max_version_level) for row in answer.finalized_features}
    return levels.get("transaction.version", 0)
