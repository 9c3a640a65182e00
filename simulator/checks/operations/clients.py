"""I12: the answers of clients agree with the log.

- `ok` belongs to one committed record at the moment when the client gets it; no other `ok` belongs
  to the same. A topic has all the partitions that were asked for by then.
- `fail` belongs to none at the end of the run. A failed creation has no id to look for, so topics
  are counted by name: as many as were acknowledged or may have been made, not one more. Nor is a
  config written more often than a broker sent the request.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from simulator.checks.operations.committed_writes import CommittedWrites
from simulator.checks.operations.histories import (
    SENT_AGAIN_MAX,
    outcome_of,
    sent_once,
    times_sent_again,
)
from simulator.cluster.requests import (
    CONFIG,
    READS,
    TOPIC_RESOURCE,
    TOPIC_WRITES,
    Operation,
)


class ClientChecks:
    """Memory of the acknowledged records.

    Args:
        writes: the committed writes.
        partition_count: asked for with every topic.
    """

    def __init__(self, writes: CommittedWrites, partition_count: int) -> None:
        self._writes = writes
        self._partition_count = partition_count
        self._acknowledged: dict[tuple[str, bytes], Operation] = {}
        """(`create` or `delete`, topic id) -> the operation acknowledged with it."""

    def on_acknowledged(self, operation: Operation) -> str | None:
        """Describe what is wrong with an `ok` that a client got just now, None if nothing is."""
        what = f"{operation.kind} of {operation.name}"
        if operation.kind == "write":
            is_committed = config_of(operation) in self._writes.configs
            suffix = f"={operation.value} was acknowledged and is not committed"
            return None if is_committed else what + suffix
        assert operation.kind in TOPIC_WRITES, f"{operation.kind=}"
        return self._on_topic(operation, what)

    def _on_topic(self, operation: Operation, what: str) -> str | None:
        topic_id = operation.topic_id
        if topic_id is None:
            return f"{what} was acknowledged without a topic id"
        found = self._committed(operation.kind).get(topic_id)
        if found is None:
            return f"{what}, {topic_id.hex()}, was acknowledged and is not committed"
        if found != operation.name:
            return f"{what}, {topic_id.hex()}, was acknowledged; that topic is named {found}"
        other = self._acknowledged.setdefault((operation.kind, topic_id), operation)
        if other is not operation:
            return f"{what}, {topic_id.hex()}, was acknowledged to {other.client} before"
        return self._without_partitions(topic_id, what) if operation.kind == "create" else None

    def _without_partitions(self, topic_id: bytes, what: str) -> str | None:
        """Describe what of the partitions of a created topic is not as it was asked for."""
        created, asked = self._writes.partitions.get(topic_id, set()), self._partition_count
        if created == set(range(asked)):
            return None
        text = f"was acknowledged with {asked} partitions, committed are {sorted(created)}"
        return f"{what}, {topic_id.hex()}, {text}"

    def _committed(self, kind: str) -> dict[bytes, str]:
        return self._writes.created if kind == "create" else self._writes.deleted

    def failed_but_committed(
        self, history: Iterable[Operation], sent_again: Mapping[int, Sequence[int]]
    ) -> str | None:
        """Describe, at the end, a committed write that only operations with outcome `fail` explain.

        Args:
            history: all operations.
            sent_again: node -> times when it was about to send a request once more
                (simulator/checks/operations/histories.py).
        """
        possible: Counter[tuple[str, str]] = Counter()
        for operation in history:
            if operation.kind in READS:
                continue
            is_sent_once = sent_once(operation, sent_again)
            outcome = outcome_of(operation, is_sent_once=is_sent_once)
            is_failed = outcome == "fail" or (outcome == "ok" and operation.error is not None)
            again = times_sent_again(operation, sent_again.get(operation.target, ()))
            if operation.kind == "write":
                wrong = self._wrong_with_write(operation, again, is_failed=is_failed)
                if wrong is not None:
                    return wrong
                continue
            kind_and_name = (operation.kind, operation.name)
            if again >= SENT_AGAIN_MAX:
                possible[kind_and_name] += 1_000_000  # it was not counted further
            possible[kind_and_name] += again + (0 if is_failed else 1)
        for kind in TOPIC_WRITES:
            for name, count in sorted(Counter(self._committed(kind).values()).items()):
                if count > possible[kind, name]:
                    return (
                        f"{count} times {kind} of {name} is committed; "
                        f"clients may have done so {possible[kind, name]} times"
                    )
        return None

    def _wrong_with_write(self, operation: Operation, again: int, *, is_failed: bool) -> str | None:
        """Describe a write that is committed more often than it was asked for."""
        what, count = (
            f"{operation.name}={operation.value}",
            self._writes.configs[config_of(operation)],
        )
        if is_failed and count:
            return f"write of {what} failed and is committed"
        if count > 1 + again and again < SENT_AGAIN_MAX:
            return f"write of {what} was sent {1 + again} times and is committed {count} times"
        return None


def config_of(operation: Operation) -> tuple[int, str, str, str | None]:
    """Key of what a `write` commits, as in the ledger; no two writes of a run share one."""
    return TOPIC_RESOURCE, operation.name, CONFIG, operation.value
