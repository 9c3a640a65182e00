"""What the simulated clients were told, judged by the checker that knows nothing of the project.

At the end of a run every name is read from the committed image: those reads come after everything
else, so that what was acknowledged has to be there and what was refused must not.
"""

from typing import Final

from jepsen.linearizability import ILLEGAL, Budget, Operation, check
from metadata.image import Image
from metadata.json_form import uuid_text
from simulator.workload import NAMES, Workload, topic_name

READER: Final = 10_000
STEPS_MAX: Final = 2_000_000


def operations_of(workload: Workload, image: Image, end_us: int) -> list[Operation]:
    """The history of a run, final reads included; times are virtual microseconds."""
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
