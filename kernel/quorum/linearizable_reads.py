"""Linearizable reads at this node: a read waits for raft's confirmation, then for its own image.

The leader confirms a read at an offset (raft/fetching/read_index.py). The image may be older: it is
published behind the step that commits, and a read of it may begin once it holds all below that
offset (INV-READ-4).
"""

from collections import deque

from kernel.effects import AnswerRead, Effect
from kernel.quorum.metadata_state import MetadataState
from kernel.quorum.replica import Replica
from raft.effects import ReadIndexConfirmed, ReadIndexRefused
from raft.events import ReadIndexRequested


class LinearizableReads:
    """The reads of a node that are not answered."""

    def __init__(self, replica: Replica, state: MetadataState, effects: list[Effect]) -> None:
        self._replica = replica
        self._state = state
        self._effects = effects
        self._confirmed: deque[ReadIndexConfirmed] = deque()
        """Confirmed reads that wait for the image, by offset: it never decreases."""

    def ask(self, token: int) -> None:
        """Begin a read; an AnswerRead with its token ends it."""
        self._replica.enqueue(ReadIndexRequested(token))

    def on_confirmed(self, effect: ReadIndexConfirmed) -> None:
        """Let confirmed reads wait for the image."""
        assert not self._confirmed or effect.offset >= self._confirmed[-1].offset, f"{effect=}"
        self._confirmed.append(effect)

    def on_refused(self, effect: ReadIndexRefused) -> None:
        """Answer refused reads."""
        self._effects.extend([AnswerRead(token, effect.reason) for token in effect.tokens])

    def answer_applied(self) -> None:
        """Answer the reads whose offset the published image has reached."""
        applied = self._state.applied_end_offset
        while self._confirmed and self._confirmed[0].offset <= applied:
            tokens = self._confirmed.popleft().tokens
            self._effects.extend([AnswerRead(token) for token in tokens])
