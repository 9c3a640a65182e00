"""Speed of the linearizability checker, on one core, in CPU time.

python -m benchmarks.linearizability [--operations N] [--histories FOLDER] [--json]

Figures: cursor steps per second and seconds for histories of clients that share one register
(legal, refuted at the end, with lost operations), a hard search, and, when a folder is named,
everything in it (`*.log`: cas-register), parsing included.
"""

import gc
import heapq
import random
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import report
from jepsen.linearizability import Budget, Operation, check, history_of, read_history

CLIENTS = 10
VALUES = 5


def register_operations(
    count: int, *, functions: Sequence[str], seed: int, lost_share: float = 0.0
) -> list[Operation]:
    """Operations of clients of one register, each always with one open operation.

    Every operation takes effect at a random moment between call and return, concurrently with the
    others, so about ten are open at any time.
    """
    rng = random.Random(seed)
    events = [(rng.randrange(100), client, "call") for client in range(CLIENTS)]
    heapq.heapify(events)
    state: int | None = None
    opened: dict[int, tuple[str, Any, int]] = {}
    answers: dict[int, tuple[str, Any]] = {}
    made: list[Operation] = []
    called = 0
    while events:
        now, client, what = heapq.heappop(events)
        if what == "call" and called < count:
            called += 1
            f = rng.choice(functions)
            value = {"read": None, "write": rng.randrange(VALUES)}.get(
                f, [rng.randrange(VALUES), rng.randrange(VALUES)]
            )
            opened[client] = (f, value, now)
            heapq.heappush(events, (now + rng.randrange(1, 1000), client, "effect"))
        elif what == "effect":
            f, value, _ = opened[client]
            state, answers[client] = performed(state, f, value)
            heapq.heappush(events, (now + rng.randrange(1, 1000), client, "return"))
        elif what == "return":
            f, value, call = opened.pop(client)
            kind, output = answers.pop(client)
            is_lost = rng.random() < lost_share
            made.append(
                Operation(
                    process=client,
                    f=f,
                    value=value,
                    call=call,
                    end=None if is_lost else now,
                    type="info" if is_lost else kind,
                    output=None if is_lost else output,
                )
            )
            following = client + CLIENTS if is_lost else client
            heapq.heappush(events, (now + rng.randrange(1, 300), following, "call"))
    return made


def performed(state: int | None, f: str, value: Any) -> tuple[int | None, tuple[str, Any]]:
    """State after an operation on the register, and the completion's type and value."""
    if f == "read":
        return state, ("ok", state)
    if f == "write":
        return value, ("ok", value)
    if state == value[0]:
        return value[1], ("ok", value)
    return state, ("fail", value)


def with_a_wrong_end(operations: list[Operation]) -> list[Operation]:
    """The operations and one more that reads a value never written."""
    last = max(each.end for each in operations if each.end is not None)
    wrong = Operation(process=10**6, f="read", output=VALUES, call=last + 1, end=last + 2)
    return [*operations, wrong]


def hard_operations(count: int) -> list[Operation]:
    """Concurrent writes of different values and reads in an order that no write order allows."""
    writes = [Operation(process=n, f="write", value=n, call=0, end=100) for n in range(count)]
    reads = [
        Operation(process=50, f="read", output=n % 2, call=101 + 2 * n, end=102 + 2 * n)
        for n in range(2)
    ]
    return [*writes, *reads]


def measured(operations: list[Operation], *, prune: bool = True) -> dict[str, Any]:
    """Measure one check in CPU seconds; operations and history are made before."""
    history = history_of(operations)
    assert history.operations
    gc.collect()
    started = time.process_time()
    result = check(history, "cas-register", prune=prune, budget=Budget(cache_entries=20_000_000))
    seconds = time.process_time() - started
    return {
        "verdict": result.verdict,
        "operations": result.operations,
        "steps": result.steps,
        "configurations": result.cache_size,
        "cpu_s": round(seconds, 3),
        "steps_per_s": round(result.steps / seconds),
    }


def measured_folder(folder: Path) -> dict[str, Any]:
    """Read and check all `*.log` files below a folder."""
    started = time.process_time()
    operations = steps = files = 0
    for path in sorted(folder.rglob("*.log")):
        result = check(read_history(path), "cas-register")
        operations, steps, files = operations + result.operations, steps + result.steps, files + 1
    seconds = time.process_time() - started
    return {
        "verdict": f"{files} files",
        "operations": operations,
        "steps": steps,
        "cpu_s": round(seconds, 3),
        "steps_per_s": round(steps / seconds),
    }


def main() -> None:
    """Run everything and print the figures."""
    parser = report.parser(__doc__)
    parser.add_argument("--operations", type=int, default=100_000)
    parser.add_argument("--histories", type=Path, help="folder with foreign *.log histories")
    options = parser.parse_args()
    count = options.operations
    plain = register_operations(count, functions=("read", "write"), seed=1)
    with_cas = register_operations(count, functions=("read", "write", "cas"), seed=1)
    lost = register_operations(
        count // 100, functions=("read", "write", "cas"), seed=2, lost_share=0.02
    )
    small = register_operations(300, functions=("read", "write", "cas"), seed=3)
    rows = {
        "read/write": measured(plain),
        "with cas": measured(with_cas),
        "refuted at end": measured(with_a_wrong_end(plain[: count // 5])),
        "the whole, refuted at end": measured(with_a_wrong_end(plain)),
        "some lost": measured(lost),
        "hard, plain": measured(hard_operations(16), prune=False),
        "300, plain": measured(with_a_wrong_end(small), prune=False),
    }
    if options.histories:
        rows["foreign logs"] = measured_folder(options.histories)
    report.show("linearizability", rows, as_json=options.json)


if __name__ == "__main__":
    main()
