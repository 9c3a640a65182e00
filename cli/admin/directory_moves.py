"""Moves of replicas between the log directories of their brokers: begun and looked at.

Source: apache/kafka: tools/.../reassign/ReassignPartitionsCommand.java (findLogDirMoveStates,
replicaMoveStatesToString, executeMoves), 4.3.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from cli.admin.reassignment_plan import LogDirs, Replica, by_broker
from cli.connect import Api, ClusterError, check, each_pair, error_text, newest
from cli.records.clients.clock import Clock

ALTER_REPLICA_LOG_DIRS: Final = 34
DESCRIBE_LOG_DIRS: Final = 35
REPLICA_NOT_AVAILABLE: Final = 9
RETRY_MS: Final = 100


class TerseError(ClusterError):
    """A refusal whose text is a whole sentence: it is shown without `Error: `."""


class Directories(NamedTuple):
    """Log directories of one replica on its broker."""

    current: str | None = None
    future: str | None = None
    """Directory that the replica is being moved to."""


class MoveState(NamedTuple):
    """State of the move of a replica to a directory."""

    text: str
    is_done: bool
    """False: throttles stay."""
    is_active: bool = False


def directories_of(api: Api, replicas: Iterable[Replica]) -> dict[Replica, Directories]:
    """Log directories of replicas; (None, None) of those that are in none their broker can read.

    Raises:
        ClusterError: a broker is not live or refuses.
    """
    module = newest(DESCRIBE_LOG_DIRS)
    found = {}
    for broker, names in _by_broker(replicas).items():
        rows = tuple(
            module.DescribableLogDirTopic(topic=topic, partitions=tuple(numbers))
            for topic, numbers in _by_topic(names).items()
        )
        request = module.DescribeLogDirsRequest(topics=rows)
        try:
            answer = check(api.call(DESCRIBE_LOG_DIRS, request, broker))
        except ClusterError as error:
            raise ClusterError(f"log directories of broker {broker}: {error}") from error
        found.update(dict.fromkeys(names, Directories()))
        for result in answer.results:
            for topic, row in each_pair(result.topics):
                replica = Replica(topic, int(row.partition_index), broker)
                kind = "future" if row.is_future_key else "current"
                if replica in found:
                    found[replica] = found[replica]._replace(**{kind: str(result.log_dir)})
    return found


def move_states(api: Api, moves: LogDirs) -> dict[Replica, MoveState]:
    """States of the moves, sorted by broker.

    Raises:
        ClusterError: a broker is not live or refuses.
    """
    found = directories_of(api, moves)
    return {
        replica: move_state(replica, moves[replica], found[replica])
        for replica in sorted(moves, key=by_broker)
    }


def move_state(replica: Replica, target: str, found: Directories) -> MoveState:
    """State of a move to `target`."""
    name = f"Partition {replica.topic}-{replica.partition}"
    broker = f"on broker {replica.broker}"
    if found.current is None:
        return MoveState(
            f"{name} is not found in any live log dir {broker}. There is likely an offline log "
            "directory on the broker.",
            is_done=False,
        )
    if found.future is None:
        if found.current == target:
            return MoveState(
                f"Reassignment of replica {replica} completed successfully.", is_done=True
            )
        return MoveState(
            f"{name} {broker} is not being moved from log dir {found.current} to {target}.",
            is_done=True,
        )
    if found.future == target:
        text = f"Reassignment of replica {replica} is still in progress."
    else:
        text = f"{name} {broker} is being moved to log dir {found.future} instead of {target}."
    return MoveState(text, is_done=False, is_active=True)


def start_moves(
    api: Api, moves: LogDirs, timeout_ms: int, clock: Clock, tell: Callable[[str], object]
) -> None:
    """Begin the moves; those of replicas that their brokers do not have yet, when they have them.

    Args:
        api: The cluster.
        moves: Target directories.
        timeout_ms: How long to try again.
        clock: Time.
        tell: Takes a line for each move that was begun.

    Raises:
        TerseError: not all replicas came in time.
        ClusterError: a broker refuses a move.
    """
    deadline_ms = clock.now_ms() + timeout_ms
    pending = dict(moves)
    while True:
        codes = _altered(api, pending)
        for replica in sorted(codes, key=by_broker):
            if codes[replica] is None:
                tell(
                    f"Successfully started moving log directory to {pending.pop(replica)} for "
                    f"replica {replica.topic}-{replica.partition} with broker {replica.broker} \n"
                )
        for replica, refusal in sorted(codes.items(), key=lambda row: by_broker(row[0])):
            if refusal:
                raise ClusterError(f"Failed to alter dir for {replica}: {refusal}")
        if not pending:
            return
        if clock.now_ms() >= deadline_ms:
            many = "s" if len(pending) > 1 else ""
            names = ",".join(str(replica) for replica in sorted(pending, key=by_broker))
            raise TerseError(
                f"Timed out before log directory move{many} could be started for: {names}"
            )
        clock.sleep_ms(RETRY_MS)


def _altered(api: Api, moves: LogDirs) -> dict[Replica, str | None]:
    """Result by replica: None begun, "" not available yet, otherwise the refusal."""
    module = newest(ALTER_REPLICA_LOG_DIRS)
    found: dict[Replica, str | None] = {}
    for broker, names in _by_broker(moves).items():
        by_path: dict[str, list[Replica]] = {}
        for replica in names:
            by_path.setdefault(moves[replica], []).append(replica)
        rows = tuple(
            module.AlterReplicaLogDir(
                path=path,
                topics=tuple(
                    module.AlterReplicaLogDirTopic(name=topic, partitions=tuple(numbers))
                    for topic, numbers in _by_topic(replicas).items()
                ),
            )
            for path, replicas in by_path.items()
        )
        request = module.AlterReplicaLogDirsRequest(dirs=rows)
        try:
            answer = api.call(ALTER_REPLICA_LOG_DIRS, request, broker)
        except ClusterError as error:
            found.update(dict.fromkeys(names, str(error)))
            continue
        for topic in answer.results:
            for row in topic.partitions:
                replica = Replica(str(topic.topic_name), int(row.partition_index), broker)
                found[replica] = _refusal(int(row.error_code))
    return found


def _refusal(code: int) -> str | None:
    if code == REPLICA_NOT_AVAILABLE:
        return ""
    return error_text(code) if code else None


def _by_broker(replicas: Iterable[Replica]) -> Mapping[int, list[Replica]]:
    found: dict[int, list[Replica]] = {}
    for replica in sorted(replicas, key=by_broker):
        found.setdefault(replica.broker, []).append(replica)
    return found


def _by_topic(replicas: Iterable[Replica]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for replica in replicas:
        found.setdefault(replica.topic, []).append(replica.partition)
    return found
