"""The records of a running broker as the API reads them: values made on their own thread."""

from collections.abc import Callable
from typing import Protocol, TypeVar

from broker.coordinators.coordinator_views import CoordinatorViews
from broker.records_counts import RecordsCounts
from broker.replicas.replica_views import LocalReplicaView
from wire.types import TopicIdPartition

Answer = TypeVar("Answer")


class RecordsStalledError(Exception):
    """The thread of the records has not answered in time, or too many wait for it."""


class RecordsSide(Protocol):
    """The records of one broker, on another thread.

    All raise RecordsStalledError; the loop of the caller goes on meanwhile.
    """

    async def replica(self, key: TopicIdPartition) -> LocalReplicaView | None:
        """View of a replica; None if the broker hosts none."""
        ...

    async def counts(self) -> RecordsCounts:
        """Count what the broker did and has."""
        ...

    async def coordinators(self, question: Callable[[CoordinatorViews], Answer]) -> Answer:
        """Answer a question about groups and transactions, which is asked on that thread."""
        ...
