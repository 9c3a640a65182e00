"""States of a transactional id, and the table of the transitions between them.

    Empty ---> Ongoing ---> PrepareCommit ---> CompleteCommit ---> Ongoing, Empty, Dead
      |           +-------> PrepareAbort ----> CompleteAbort ----> the same
      +--------------------------^ (transaction.version 2: an abort without a partition)

PrepareEpochFence is the state of an id whose producer is being fenced; Kafka keeps it in memory
alone, here the abort that fences is one step. Dead is the state of an id that expires: a tombstone.

apache/kafka: transaction-coordinator/.../TransactionState.java, 4.3
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from enum import IntEnum
from typing import Final


class TransactionState(IntEnum):
    """State of a transactional id; the number is that of its record."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def kafka_name(self) -> str:
        """Kafka's name, as in PrepareCommit."""
        return "".join(word.capitalize() for word in self.name.split("_"))


S = TransactionState
AT_REST: Final = frozenset({S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT})
"""States without a transaction: the id may begin one, be initialized, expire."""
PREPARED: Final = frozenset({S.PREPARE_COMMIT, S.PREPARE_ABORT})
"""States of a transaction that has ended, whose markers are on their way."""
PREVIOUS_STATES: Final[Mapping[TransactionState, AbstractSet[TransactionState]]] = {
    S.EMPTY: AT_REST,
    S.ONGOING: AT_REST | {S.ONGOING},
    S.PREPARE_COMMIT: {S.ONGOING},
    S.PREPARE_ABORT: AT_REST | {S.ONGOING, S.PREPARE_EPOCH_FENCE},
    S.COMPLETE_COMMIT: {S.PREPARE_COMMIT},
    S.COMPLETE_ABORT: {S.PREPARE_ABORT},
    S.DEAD: AT_REST,
    S.PREPARE_EPOCH_FENCE: {S.ONGOING},
}
"""By the next state. The one that an id begins with is EMPTY."""
OPEN: Final = (S.ONGOING, *sorted(PREPARED))
"""States of an id with a transaction that is not complete."""
BY_NAME: Final = {state.kafka_name: state for state in TransactionState}
assert PREVIOUS_STATES.keys() == set(TransactionState)
