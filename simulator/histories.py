"""What the simulated clients were told, judged by the checker that knows nothing of the project.

At the end of a run every name is read from the committed image: those reads come after everything
else, so that what was acknowledged has to be there and what was refused must not.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from jepsen.linearizability import ILLEGAL, Budget, Operation, check
from metadata.image import Image
from metadata.json_form import uuid_text
from simulator.workload import NAMES, Workload, topic_name
from simulator.workload import Operation as Asked

READER: Final = 1_000_000
SENT_AGAIN: Final = 10_000
SENT_AGAIN_MAX: Final = 3
FORWARDED_US_MAX: Final = 40_000_000
"""A broker gives up a request within 30 s by its own clock, which may be slow."""
STEPS_MAX: Final = 2_000_000


def operations_of(
    workload: Workload,
    image: Image,
    end_us: int,
    sent_again: Mapping[int, Sequence[int]] = MappingProxyType({}),
) -> list[Operation]:
    """The history of a run, final reads included; times are virtual microseconds.

    Args:
        workload: the clients.
        image: committed at the end.
        end_us: when the final reads happen.
        sent_again: node -> when it was about to send a request once more, ascending. A broker does
            so when the controller changed or the connection to it broke (as Kafka's does), so what
            it was asked then may have run once more, acknowledged or not.
    """
    found = [
        Operation(
            process=number,
            f=operation.kind,
            value=(operation.name, None),
            call=operation.called_us,
            end=None if operation.outcome == "info" else operation.returned_us,
            type=operation.outcome,
            output=(
                operation.name,
                None if operation.topic_id is None else uuid_text(operation.topic_id),
            ),
            error=operation.error if operation.outcome == "fail" else None,
        )
        for number, operation in enumerate(workload.history)
    ]
    for number, operation in enumerate(workload.history):
        count = _times_sent_again(operation, sent_again.get(operation.target, ()))
        found += [
            Operation(
                process=SENT_AGAIN * (1 + more) + number,
                f=operation.kind,
                value=(operation.name, None),
                call=operation.called_us,
                type="info",
            )
            for more in range(count)
        ]
    for number in range(NAMES):
        name = topic_name(number)
        topic = image.topic_named(name)
        found.append(
            Operation(
                process=READER + number,
                f="exists",
                value=(name, None),
                call=end_us,
                end=end_us + 1,
                output=(name, None if topic is None else uuid_text(topic.topic_id)),
            )
        )
    return found


def _times_sent_again(operation: Asked, times_us: Sequence[int]) -> int:
    """How often the request may have run beyond the once that its outcome speaks of."""
    if operation.outcome == "fail":
        return 0
    assert operation.returned_us is not None, "it has an outcome"
    left_us = 0 if operation.outcome == "ok" else FORWARDED_US_MAX
    last_us = operation.returned_us + left_us
    first, last = bisect_left(times_us, operation.called_us), bisect_right(times_us, last_us)
    return min(SENT_AGAIN_MAX, last - first)


def judge(operations: list[Operation], steps_max: int = STEPS_MAX) -> tuple[str, str | None]:
    """The verdict (`ok`, `illegal`, `unknown`), and why the history is not linearizable.

    `unknown`: too hard to tell within so many steps of the search. That is no failure, but no
    proof either, so campaigns count it.
    """
    result = check(operations, "topic-set", budget=Budget(steps=steps_max), clock=None)
    if result.verdict != ILLEGAL:
        return result.verdict, None
    bad = [part for part in result.partitions if part.verdict == ILLEGAL]
    named = ", ".join(str(key) for part in bad for key in part.keys)
    text = f"the history of {named or 'the topics'} is not linearizable {result.reason or ''}"
    return ILLEGAL, text.strip()
