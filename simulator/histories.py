"""What the simulated clients were told, judged by the checker that knows nothing of the project.

At the end of a run every name is read from the committed image: those reads come after everything
else, so that what was acknowledged has to be there and what was refused must not.
"""

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

from jepsen.linearizability import ILLEGAL, Budget, Operation, check
from metadata.image import Image
from metadata.json_form import uuid_text
from simulator.workload import NAMES, Workload, topic_name
from simulator.workload import Operation as Asked

READER: Final = 100_000
SENT_AGAIN: Final = 10_000
STEPS_MAX: Final = 2_000_000


def operations_of(
    workload: Workload, image: Image, end_us: int, elected_us: Sequence[int] = ()
) -> list[Operation]:
    """The history of a run, final reads included; times are virtual microseconds.

    Args:
        workload: the clients.
        image: committed at the end.
        end_us: when the final reads happen.
        elected_us: when leaders were elected. A broker sends a request again to the next controller
            (as Kafka's does), so one that was under way then may have run once more.
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
    found += [
        Operation(
            process=SENT_AGAIN + number,
            f=operation.kind,
            value=(operation.name, None),
            call=operation.called_us,
            type="info",
        )
        for number, operation in enumerate(workload.history)
        if operation.outcome == "ok" and _holds_an_election(operation, elected_us)
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


def _holds_an_election(operation: Asked, elected_us: Sequence[int]) -> bool:
    assert operation.returned_us is not None, "it has an outcome"
    first = bisect_left(elected_us, operation.called_us)
    return first < len(elected_us) and elected_us[first] <= operation.returned_us


def refutation(operations: list[Operation]) -> str | None:
    """Why the history is not linearizable, None if it is (or too hard to tell)."""
    result = check(operations, "topic-set", budget=Budget(steps=STEPS_MAX), clock=None)
    if result.verdict != ILLEGAL:
        return None
    bad = [part for part in result.partitions if part.verdict == ILLEGAL]
    named = ", ".join(str(key) for part in bad for key in part.keys)
    return (
        f"the history of {named or 'the topics'} is not linearizable {result.reason or ''}".strip()
    )
