"""Questions to the coordinators of this node, and long work on what they answer."""

import asyncio
from collections.abc import Callable
from http import HTTPStatus
from typing import Final, TypeVar

from broker.coordinators.coordinator_views import CoordinatorViews
from inspection.problem import Problem
from inspection.replicas import told
from inspection.running_node import RunningNode

IDS_INLINE: Final = 2_000
"""Number of ids up to which a page of them is sorted on the driver's thread."""
Answer = TypeVar("Answer")


async def held_here(node: RunningNode, question: Callable[[CoordinatorViews], Answer]) -> Answer:
    """The answer of the coordinators of this node.

    Raises:
        Problem: 404, it is no broker; 503, the thread of the records does not answer.
    """
    answer = await told(node.coordinators(question))
    if answer is None:
        raise Problem(HTTPStatus.NOT_FOUND, "this node coordinates nothing: it is no broker")
    return answer


async def sorted_elsewhere(count: int, work: Callable[[], Answer]) -> Answer:
    """Do work on so many ids here, on many of them on another thread: images cannot change."""
    return work() if count <= IDS_INLINE else await asyncio.to_thread(work)
