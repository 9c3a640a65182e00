"""Connections of clients with transactional ids, in the versions of older or newer ones."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from kio.serial import entity_reader
from typing_extensions import override

from simulator.cluster.network import Network, Pipe
from simulator.cluster.scheduler import Scheduler
from simulator.records.client_link import ClientLink
from simulator.records.transactions.requests import LAST_ADD_VERSION, OLD_LIMITS
from wire.api_keys import ADD_PARTITIONS_TO_TXN
from wire.connections.client_connection import ClientConnection, Pending
from wire.messages.codec import Body, entity_class
from wire.primitives import Buffer

_BODY_AT: Final = 5
"""Behind the correlation id and an empty list of tagged fields."""


class TransactionConnection(ClientConnection):
    """A connection that reads what an AddPartitionsToTxn of clients is answered.

    The newest class of that API, in which others are read, has only what brokers are answered.
    """

    @override
    def _read(self, pending: Pending, content: Buffer) -> Body:
        is_of_clients = pending.api_version <= LAST_ADD_VERSION
        if pending.api_key != ADD_PARTITIONS_TO_TXN or not is_of_clients:
            return super()._read(pending, content)
        entity: Any = entity_class(pending.api_key, pending.api_version, "response")
        return entity_reader(entity)(bytes(content), _BODY_AT)[0]


class TransactionLink(ClientLink):
    """A connection of a client.

    Args:
        host: number of the client.
        target: node.
        network: between them.
        scheduler: of the world.
        connect: opens the pipe.
        is_old: True for a client from before transaction.version 2.
    """

    def __init__(
        self,
        host: int,
        target: int,
        network: Network,
        scheduler: Scheduler,
        connect: "Callable[[ClientLink], Pipe]",
        *,
        is_old: bool,
    ) -> None:
        self._limits: Mapping[int, int] = OLD_LIMITS if is_old else {}
        super().__init__(host, target, network, scheduler, connect)

    @override
    def make_protocol(self) -> ClientConnection:
        return TransactionConnection("simulated", version_limits=self._limits)
