"""An illegal history as one self-contained HTML page.

One row per client, one box per operation from call to return, faded out at the right edge where
it never returned. Hovering an operation draws the largest partial linearization that contains it,
with the state after every point, and in red the operation that cannot come next. The page fetches
nothing: the data stand in it. Their keys are those of porcupine's visualization
(anishathalye/porcupine: visualization.go), so that other tools for it can read them.
"""

import json
import re
from collections.abc import Iterable, Sequence
from html import escape
from importlib import resources
from typing import Any, Final

import msgspec

from jepsen.linearizability.checker import Result
from jepsen.linearizability.counterexample import Counterexample, refuted_partition, searched
from jepsen.linearizability.history import INVOKE, History, is_client
from jepsen.linearizability.model import Model
from jepsen.linearizability.partition import Item, Partition
from jepsen.linearizability.transitions import Transitions, describe

DRAWN_MAX: Final = 400
"""Operations drawn of the whole partition: those around the error."""
SEARCH_STEPS_MAX: Final = 1 << 19
RANK_UNIT: Final = 100
PLACEHOLDER: Final = re.compile("@(TITLE|TEXT|DATA)@")
FAULT_ENDS: Final = {"kill": "start", "pause": "resume", "partition": "heal"}
FAULT_COLOURS: Final = {
    "kill": "#f4c7c3", "pause": "#fce8b2", "partition": "#d7c9f0", "clock": "#c9e4f0",
}  # fmt: skip
OTHER_COLOUR: Final = "#dddddd"


class Annotation(msgspec.Struct, frozen=True, kw_only=True, rename="pascal"):
    """A span in a row of its own: a fault, or the role of a node.

    Attributes:
        tag: Row, such as `nemesis` or `node 1`.
        start: Time of the clock of the history.
        end: Time, inclusive.
        description: Text in the span.
        details: Text shown on hovering.
        background_color: Any colour of CSS.
        text_color: Any colour of CSS.
        client_id: For porcupine's readers; not used.
    """

    tag: str
    start: int
    end: int
    description: str
    details: str = ""
    background_color: str = OTHER_COLOUR
    text_color: str = "#000000"
    client_id: int = -1


def page_of(
    history: History,
    model: Model,
    result: Result,
    counterexample: Counterexample,
    *,
    annotations: Sequence[Annotation] = (),
) -> str:
    """Make the page of a refuted history; it can be encoded, half characters become escapes.

    Args:
        history: The history.
        model: The model it was checked with.
        result: Result of the check.
        counterexample: Its small part, drawn first.
        annotations: Rows to add to those of the nemesis.
    """
    drawings: list[dict[str, Any]] = []
    partition = refuted_partition(history, model, result)
    if partition is not None:
        small = _small(partition, counterexample)
        drawings.append(_drawing(history, model, small, "Counterexample"))
        around = _around(partition, counterexample.operation)
        drawings.append(_drawing(history, model, around, "Whole history of the keys"))
    spans = [*nemesis_annotations(history), *annotations]
    _rank_times(drawings, spans)
    data = {
        "Partitions": drawings,
        "Annotations": [msgspec.to_builtins(span) for span in spans],
    }
    literal = json.dumps(data).replace("<", "\\u003c")  # nothing in it ends the script
    template = resources.files("jepsen.linearizability").joinpath("picture.html")
    page = template.read_text(encoding="utf-8")
    keys = ", ".join(str(key) for key in counterexample.keys if key is not None)
    title = f"{history.source}{f', key {keys}' if keys else ''}: not linearizable"
    text = "\n".join(counterexample.text())
    parts = {"TITLE": escape(title), "TEXT": escape(text), "DATA": literal}
    page = PLACEHOLDER.sub(lambda match: parts[match.group(1)], page)  # what is put in, stays
    return page.encode("utf-8", "backslashreplace").decode("utf-8")


def _small(partition: Partition, counterexample: Counterexample) -> Partition:
    opened = set(counterexample.never_returned)
    kept = set(counterexample.operations)
    return partition._replace(
        items=tuple(
            item._replace(end=None) if item.operation in opened else item
            for item in partition.items
            if item.operation in kept
        )
    )


def _around(partition: Partition, operation: int) -> Partition:
    """Return the partition, or if it is large its operations up to shortly after the error."""
    items = sorted(partition.items, key=lambda item: item.call)
    if len(items) <= DRAWN_MAX:
        return partition._replace(items=tuple(items))
    place = next(number for number, item in enumerate(items) if item.operation == operation)
    until = min(len(items), place + DRAWN_MAX // 10)
    return partition._replace(items=tuple(items[:until][-DRAWN_MAX:]))


def _drawing(history: History, model: Model, partition: Partition, title: str) -> dict[str, Any]:
    """Convert one partition to porcupine's shape; times are still those of the history."""
    items = sorted(partition.items, key=lambda item: item.call)
    partition = partition._replace(items=tuple(items))
    _, paths = searched(model, partition, steps_max=SEARCH_STEPS_MAX)
    largest: dict[int, int] = {}
    for number, path in enumerate(paths):
        for index in path:
            largest.setdefault(index, number)  # longest first
    used = sorted(set(largest.values()))
    renumbered = {old: new for new, old in enumerate(used)}
    return {
        "Title": title,
        "History": [_box(history, model, item) for item in items],
        "PartialLinearizations": [_points(model, partition, paths[old]) for old in used],
        "Largest": {str(index): renumbered[old] for index, old in largest.items()},
    }


def _box(history: History, model: Model, item: Item) -> dict[str, Any]:
    operation = history.operations[item.operation]
    return {
        "ClientId": operation.process,
        "Start": item.call,
        "OriginalStart": str(item.call),
        "End": item.end,
        "OriginalEnd": "" if item.end is None else str(item.end),
        "Description": describe(model, item.parts),
        "Metadata": history.place(operation.position),
    }


def _points(model: Model, partition: Partition, path: Iterable[int]) -> list[dict[str, Any]]:
    table = Transitions(model, partition.keys)
    state = table.begin(0).state
    points = []
    for index in path:
        state = table.after(state, partition.items[index].parts)
        points.append({"Index": index, "StateDescription": table.describe_state(state)})
    return points


def nemesis_annotations(history: History) -> list[Annotation]:
    """Make a span for every event of the nemesis, from a fault to its end."""
    timed = all(event.time is not None for event in history.events if is_client(event))
    moments = [
        (event.time if timed and event.time is not None else position, event)
        for position, event in enumerate(history.events)
    ]
    last = max((moment for moment, _ in moments), default=0)
    found = []
    for number, (moment, event) in enumerate(moments):
        if is_client(event) or event.type == INVOKE or _ends_a_fault(event.f):
            continue
        end = next(
            (
                later
                for later, other in moments[number + 1 :]
                if not is_client(other) and _is_end_of(event.f, other.f)
            ),
            last,
        )
        colour = next((FAULT_COLOURS[name] for name in FAULT_COLOURS if name in event.f), None)
        found.append(
            Annotation(
                tag=str(event.process),
                start=moment,
                end=end,
                description=event.f,
                details="" if event.value is None else str(event.value),
                background_color=colour or OTHER_COLOUR,
            )
        )
    return found


def _is_end_of(f: str, other: str) -> bool:
    if f.startswith("start"):
        return other == f.replace("start", "stop", 1)
    return other in (FAULT_ENDS.get(f), f"stop-{f}", f"heal-{f}")


def _ends_a_fault(f: str) -> bool:
    return f in FAULT_ENDS.values() or f.startswith(("stop", "heal", "resume"))


def _rank_times(drawings: list[dict[str, Any]], spans: list[Annotation]) -> None:
    """Replace times by 100 x their rank: JavaScript loses the last digits of nanoseconds."""
    times = {span.start for span in spans} | {span.end for span in spans}
    for drawing in drawings:
        for box in drawing["History"]:
            times |= {box["Start"], box["End"]} - {None}
    rank = {moment: RANK_UNIT * number for number, moment in enumerate(sorted(times))}
    last = RANK_UNIT * len(rank)
    for drawing in drawings:
        for box in drawing["History"]:
            box["Start"] = rank[box["Start"]]
            box["End"] = last if box["End"] is None else rank[box["End"]]
    spans[:] = [
        msgspec.structs.replace(span, start=rank[span.start], end=rank[span.end]) for span in spans
    ]
