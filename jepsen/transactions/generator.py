"""Transactions to carry out, drawn from the seed: their micro-operations and how they end.

| ending | what | proves |
|---|---|---|
| `commit` | as applications do | that it is committed; nothing where the answer is an error |
| `abort` | all records are delivered, then it is aborted | that it is not |
| `abandon` | all records are delivered, and it is left open until its time-out | the same |
| `zombie` | a second producer of its id begins, then the first commits | the same, if refused |
"""

from random import Random
from typing import Any, Final

from jepsen.cycles.transactions import APPEND, READ
from jepsen.transactions.topics import KEYS

MicroOperation = list[Any]
"""`["append", key, value]` or `["r", key, values]`; a key is `topic-partition`."""
COMMIT: Final = "commit"
ABORT: Final = "abort"
ABANDON: Final = "abandon"
ZOMBIE: Final = "zombie"
ENDINGS: Final = (COMMIT, ABORT, ABANDON, ZOMBIE)
ENDING_WEIGHTS: Final = (84, 8, 4, 4)
MICRO_OPERATIONS_MAX: Final = 5
READS: Final = 0.4
"""Share of the micro-operations beside the first append."""


class Draw:
    """Draws transactions of values that are never used twice."""

    def __init__(self) -> None:
        """Begin with the value 0."""
        self._value = 0

    def transaction(self, rng: Random) -> tuple[list[MicroOperation], str]:
        """Draw one with its ending: it appends at least once, maybe twice to one partition."""
        rows: list[MicroOperation] = []
        for place in range(rng.randint(1, MICRO_OPERATIONS_MAX)):
            key = str(rng.choice(KEYS))
            if place and rng.random() < READS:
                rows.append([READ, key, None])
            else:
                rows.append([APPEND, key, self._value])
                self._value += 1
        rng.shuffle(rows)
        (ending,) = rng.choices(ENDINGS, ENDING_WEIGHTS)
        return rows, ending
