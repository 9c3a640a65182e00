"""Linearizable reads of the inspection API, which the kernel answers by token."""

import asyncio
from collections.abc import Callable
from itertools import count

from kernel.effects import AnswerRead
from kernel.events import ReadAsked
from raft.fetching.reads import ReadRefusal


class LinearizableReads:
    """The reads under way.

    Args:
        post: queues an event for the kernel.
    """

    def __init__(self, post: Callable[[ReadAsked], None]) -> None:
        self._post = post
        self._tokens = count(1)
        self._waiting: dict[int, asyncio.Future[ReadRefusal | None]] = {}

    async def confirm(self) -> ReadRefusal | None:
        """Wait until the node's image is linearizable; return the reason if it cannot be."""
        token = next(self._tokens)
        answered: asyncio.Future[ReadRefusal | None] = asyncio.get_running_loop().create_future()
        self._waiting[token] = answered
        self._post(ReadAsked(token))
        try:
            return await answered
        finally:
            del self._waiting[token]

    def answer(self, effect: AnswerRead) -> None:
        """End a read, unless its client has gone."""
        answered = self._waiting.get(effect.token)
        if answered is not None and not answered.done():
            answered.set_result(effect.refusal)
