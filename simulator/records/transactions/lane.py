"""The connections of one process with a transactional id: to its coordinator, and to leaders."""

from collections.abc import Callable
from typing import Any, Final

from typing_extensions import override

from simulator.records.client_link import ClientLink
from simulator.records.clients import RETRIED, Cluster, PartitionClient
from simulator.records.producers import outcome_of
from simulator.records.transactions import requests
from simulator.records.transactions.link import TransactionLink
from wire.api_keys import FIND_COORDINATOR, PRODUCE
from wire.errors import ErrorCode

RETRY_US: Final = 40_000
AGAIN: Final = RETRIED | {ErrorCode.concurrent_transactions, ErrorCode.network_exception}
"""Answers to a Produce behind which the same batch is sent again."""
ELSEWHERE: Final = frozenset(
    {
        ErrorCode.not_coordinator,
        ErrorCode.coordinator_not_available,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.request_timed_out,
    }
)
"""Answers behind which the coordinator is looked for, and asked again."""


class ProcessClient(PartitionClient):
    """A client in one process.

    Args:
        cluster: of the transactional topic.
        host: number of the client.
        partition: to which it writes; any for a coordinator.
        is_old: True for a client from before transaction.version 2.
    """

    def __init__(self, cluster: Cluster, host: int, partition: int, *, is_old: bool) -> None:
        super().__init__(cluster, host, partition)
        self.is_old = is_old

    @override
    def make_link(self, target: int) -> ClientLink:
        cluster = self.cluster
        return TransactionLink(
            self.host,
            target,
            cluster.network,
            cluster.scheduler,
            cluster.connect,
            is_old=self.is_old,
        )

    def when_running(self, act: Callable[[], None]) -> Callable[[], None]:
        """The act, unless the process has ended when it is called."""

        def run() -> None:
            if not self.is_stopped:
                act()

        return run


class Lane(ProcessClient):
    """Writes to one partition, one batch after the other."""

    def write(
        self, transactional_id: str, records: bytes, done: Callable[[ErrorCode, Any], None]
    ) -> None:
        """Send a batch until the leader takes or refuses it; `done` gets its error and row."""

        def send() -> None:
            assert self.topic_id is not None, "a leader is known"
            body = requests.produce(
                transactional_id,
                requests.Topic(self.topic_name, self.topic_id),
                self.partition,
                records,
                is_old=self.is_old,
            )
            self.ask_leader(PRODUCE, body, answered)

        def answered(response: Any) -> None:
            if self.is_stopped:
                return
            code, row = outcome_of(response)
            if code in AGAIN:
                self.later(self.when_running(lambda: self.find_leader(send_again)), RETRY_US)
            else:
                done(code, row)

        send_again = self.when_running(send)
        if self.topic_id is None:
            self.find_leader(send_again)
        else:
            send()


class CoordinatorClient(ProcessClient):
    """Asks the coordinator of one transactional id, or of a group, one request after the other.

    Args:
        cluster: of the transactional topic.
        host: number of the client.
        key: the transactional id or the id of the group.
        is_old: True for a client from before transaction.version 2.
        key_type: says which of them it is.
    """

    def __init__(
        self,
        cluster: Cluster,
        host: int,
        key: str,
        *,
        is_old: bool,
        key_type: int = requests.TRANSACTION,
    ) -> None:
        super().__init__(cluster, host, 0, is_old=is_old)
        self._key = key
        self._key_type = key_type
        self._node: int | None = None

    def ask_until(
        self,
        api_key: int,
        body: Any,
        code_of: Callable[[Any], ErrorCode],
        done: Callable[[ErrorCode, Any, int], None],
    ) -> None:
        """Ask until the answer is definite.

        Args:
            api_key: of the request.
            body: of it.
            code_of: the error in a response.
            done: gets the error, the response, and how often was asked.
        """
        tries = 0

        def ask() -> None:
            nonlocal tries
            if self._node is None:
                self._find(self.when_running(ask))
                return
            tries += 1
            self.ask(self._node, api_key, body, answered)

        def answered(response: Any) -> None:
            if self.is_stopped:
                return
            code = None if response is None else code_of(response)
            if code is None or code in ELSEWHERE:
                self._node = None
            elif code is not ErrorCode.concurrent_transactions:
                done(code, response, tries)
                return
            self.later(self.when_running(ask), RETRY_US)

        ask()

    def _find(self, found: Callable[[], None]) -> None:
        def answered(response: Any) -> None:
            if self.is_stopped:
                return
            row = None if response is None else response.coordinators[0]
            if row is None or row.error_code is not ErrorCode.none:
                self.later(self.when_running(lambda: self._find(found)))
                return
            self._node = int(row.node_id)
            found()

        body = requests.find_coordinator(self._key, self._key_type)
        self.ask_any(FIND_COORDINATOR, body, answered)
