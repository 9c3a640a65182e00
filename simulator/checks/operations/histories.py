"""Histories of the simulated clients, judged by the linearizability checker of jepsen/.

At the end of a run every name is read from the committed image: those reads come after everything
else, so what was acknowledged has to be there and what was refused must not be.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from itertools import count
from types import MappingProxyType
from typing import Final, NamedTuple

from msgspec.structs import replace

from jepsen.linearizability import (
    ILLEGAL,
    OK,
    Budget,
    Format,
    Operation,
    Result,
    check,
    explain,
    history_of,
    written_history,
)
from metadata.image import Image
from metadata.json_form import uuid_text
from simulator.cluster.client_choices import NAMES, REGISTER, topic_name
from simulator.cluster.requests import CONFIG, READS, TOPIC_RESOURCE
from simulator.cluster.requests import Operation as Asked
from simulator.cluster.workload import REFUSALS, Workload

READER: Final = 1_000_000
SENT_AGAIN: Final = 10_000
SENT_AGAIN_MAX: Final = 3
FORWARDED_US_MAX: Final = 40_000_000
"""A broker stops forwarding a request within 30 s by its own clock, which may be slow."""
STEPS_MAX: Final = 2_000_000
EXPLAIN_TURNS_MAX: Final = 1_000
"""Blocks of search steps to shrink a counterexample; no clock: a run is always the same."""
NS_PER_US: Final = 1_000
TOPIC_KINDS: Final = ("create", "delete", "exists")
REGISTER_KINDS: Final = ("write", "read")
NO_ANSWER: Final = ("TIMED_OUT", "CLOSED", "REFUSED", "STALE")
"""Errors that prove nothing, or of requests that were never sent."""


def operations_of(
    workload: Workload,
    image: Image,
    end_us: int,
    sent_again: Mapping[int, Sequence[int]] = MappingProxyType({}),
) -> list[Operation]:
    """History of a run, final reads included; times are virtual microseconds.

    Args:
        workload: the clients.
        image: committed at the end.
        end_us: time of the final reads.
        sent_again: node -> times when it was about to send a request once more, ascending. A
            broker does so when the controller changed or the connection to it broke (as Kafka's
            does), so a request of that time may have run once more, acknowledged or not.
    """
    asked = [(n, o) for n, o in enumerate(workload.history) if o.kind in TOPIC_KINDS]
    found = [
        _judged_operation(number, operation, is_sent_once=sent_once(operation, sent_again))
        for number, operation in asked
        if operation.kind != "exists" or operation.outcome == "ok"
    ]
    for number, operation in asked:
        count = times_sent_again(operation, sent_again.get(operation.target, ()))
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


def register_of(
    workload: Workload,
    image: Image,
    end_us: int,
    sent_again: Mapping[int, Sequence[int]] = MappingProxyType({}),
) -> list[Operation]:
    """History of the config that clients write; arguments as of `operations_of`."""
    found = []
    for number, operation in enumerate(workload.history):
        is_read = operation.kind == "read"
        if operation.kind not in REGISTER_KINDS or (is_read and operation.outcome != "ok"):
            continue
        is_sent_once = sent_once(operation, sent_again)
        outcome = outcome_of(operation, is_sent_once=is_sent_once)
        done = Operation(
            process=number,
            f=operation.kind,
            value=None if is_read else operation.value,
            call=operation.called_us,
            end=None if outcome == "info" else operation.returned_us,
            type=outcome,
            output=operation.value,
        )
        lost = replace(done, end=None, type="info", output=None)
        count = times_sent_again(operation, sent_again.get(operation.target, ()))
        again = (SENT_AGAIN * (1 + more) + number for more in range(count))
        found += [done, *(replace(lost, process=process) for process in again)]
    value = image.config(TOPIC_RESOURCE, REGISTER).get(CONFIG)
    last = Operation(process=READER, f="read", call=end_us, end=end_us + 1, output=value)
    return [*found, last]


def _judged_operation(number: int, operation: Asked, *, is_sent_once: bool) -> Operation:
    """Convert an operation on topics for the checker, by what its client got."""
    outcome = outcome_of(operation, is_sent_once=is_sent_once)
    error = None if outcome == "info" else operation.error
    if error in REFUSALS:
        error = error.upper() if outcome == "ok" else "NOT_DONE"
    return Operation(
        process=number,
        f=operation.kind,
        value=(operation.name, None),
        call=operation.called_us,
        end=None if outcome == "info" else operation.returned_us,
        type=outcome,
        output=(
            operation.name,
            None if operation.topic_id is None else uuid_text(operation.topic_id),
        ),
        error=error,
    )


def outcome_of(operation: Asked, *, is_sent_once: bool) -> str:
    """Outcome `ok`, `fail` or `info`, as far as the answer proves it.

    A request that the broker sent once and the state refused did not happen. For topics it also
    shows the state where simulator/checks/operations/proofs.py says so.
    """
    if operation.outcome != "info" or operation.error not in REFUSALS or not is_sent_once:
        return operation.outcome
    return "ok" if operation.is_observation and operation.kind in TOPIC_KINDS else "fail"


def count_definite(workload: Workload, sent_again: Mapping[int, Sequence[int]]) -> int:
    """Count operations with an answer that proves what happened, or what was there."""
    return sum(
        operation.error not in NO_ANSWER
        and outcome_of(operation, is_sent_once=sent_once(operation, sent_again)) != "info"
        for operation in workload.history
    )


def sent_once(operation: Asked, sent_again: Mapping[int, Sequence[int]]) -> bool:
    """True if the asked node sent nothing once more from the call to the answer."""
    if operation.returned_us is None:
        return False
    times_us = sent_again.get(operation.target, ())
    first = bisect_left(times_us, operation.called_us)
    return first == bisect_right(times_us, operation.returned_us)


def times_sent_again(operation: Asked, times_us: Sequence[int]) -> int:
    """Count the times that a request may have run beyond the one that its outcome is about."""
    if operation.outcome == "fail" or operation.kind in READS:
        return 0
    assert operation.returned_us is not None, "it has an outcome"
    is_answered = operation.outcome == "ok" or operation.error in REFUSALS
    left_us = 0 if is_answered else operation.late_us + FORWARDED_US_MAX
    last_us = operation.returned_us + left_us
    first, last = bisect_left(times_us, operation.called_us), bisect_right(times_us, last_us)
    return min(SENT_AGAIN_MAX, last - first)


class Judged(NamedTuple):
    """Verdict on a run's histories; `model` and `operations` of the illegal one, if any."""

    verdict: str
    why: str | None
    model: str = ""
    operations: Sequence[Operation] = ()


class Refuted(NamedTuple):
    """A history that is not linearizable: JSON lines for `jepsen verify --model MODEL`."""

    model: str
    lines: bytes


def judge_run(
    workload: Workload, image: Image, end_us: int, sent_again: Mapping[int, Sequence[int]]
) -> Judged:
    """Judge topics and the config; return the worse verdict of the two."""
    topics = operations_of(workload, image, end_us, sent_again)
    verdict, why = judge(topics)
    if verdict == ILLEGAL or workload.choices is None:
        return Judged(verdict, why, "topic-set", topics)
    register = register_of(workload, image, end_us, sent_again)
    second, why = judge(register, model="register")
    return Judged(second if second != OK else verdict, why, "register", register)


def refuted(judged: Judged) -> Refuted:
    """Write the illegal history as a file holds it, in nanoseconds."""
    assert judged.verdict == ILLEGAL
    events = [
        replace(
            event,
            time=None if event.time is None else event.time * NS_PER_US,
            value=list(event.value) if isinstance(event.value, tuple) else event.value,
        )
        for event in history_of(judged.operations).events
    ]
    return Refuted(judged.model, written_history(events, Format.JSONL))


def judge(
    operations: list[Operation], steps_max: int = STEPS_MAX, *, model: str = "topic-set"
) -> tuple[str, str | None]:
    """Return the verdict (`ok`, `illegal`, `unknown`), and why the history is not linearizable.

    `unknown`: not decided within so many steps of the search. That is no failure, but no proof
    either, so campaigns count it.
    """
    result = check(operations, model, budget=Budget(steps=steps_max), clock=None)
    if result.verdict != ILLEGAL:
        return result.verdict, None
    return ILLEGAL, _why(operations, model, result)


def _why(operations: Sequence[Operation], model: str, result: Result) -> str:
    """Text of model, keys, breach and a small counterexample; times are virtual microseconds."""
    ticks = count()
    history = history_of(operations)
    found = explain(
        history,
        model,
        result=result,
        clock=lambda: float(next(ticks)),
        seconds=EXPLAIN_TURNS_MAX,
    )
    assert found is not None, "an illegal history has a counterexample"
    broken = history.operations[found.operation]
    at_us = broken.call if broken.end is None else broken.end
    keys = ", ".join(str(key) for key in found.keys if key is not None)
    named = f"model {model}{f', key {keys}' if keys else ''}"
    reason = result.reason or f"no legal order for what returned at t={at_us / 1e6:.6f}s"
    return "\n    ".join([f"{named}: not linearizable: {reason}", *found.text()])
