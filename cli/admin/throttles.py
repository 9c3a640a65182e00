"""Replication throttles during a reassignment: configs of brokers and topics."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from cli.admin.config_resources import (
    DELETE,
    INCREMENTAL_ALTER_CONFIGS,
    SET,
    api_is_controller,
)
from cli.admin.reassignment_plan import Plan
from cli.connect import Api, check, newest

TOPIC, BROKER = 2, 4
BROKER_RATES: Final = (
    "leader.replication.throttled.rate",
    "follower.replication.throttled.rate",
)
LOG_DIR_RATE: Final = "replica.alter.log.dirs.io.max.bytes.per.second"
LEADERS: Final = "leader.replication.throttled.replicas"
FOLLOWERS: Final = "follower.replication.throttled.replicas"
Key = tuple[str, int]


class Move(NamedTuple):
    """A partition on its way between brokers."""

    sources: set[int]
    destinations: set[int]


def throttled_moves(plan: Plan, current: Plan, ongoing: Mapping[Key, Any]) -> dict[Key, Move]:
    """Moves between brokers that are going on, and those of a plan.

    Args:
        plan: Replicas that are wanted.
        current: Replicas of the same partitions now.
        ongoing: Rows of ListPartitionReassignments; a partition that is being reassigned comes
            from the replicas that it had before.
    """
    moves = {
        key: Move(set(row.replicas) - set(row.adding_replicas), set(row.adding_replicas))
        for key, row in ongoing.items()
    }
    for key, target in plan.items():
        sources = moves[key].sources if key in moves else set(current[key])
        moves[key] = Move(sources, set(target) - sources)
    return moves


def throttle_replication(api: Api, moves: Mapping[Key, Move], rate: int) -> str:
    """Limit the replication of moving partitions and return the output line.

    Raises:
        ClusterError: refused.
    """
    topics: dict[str, tuple[set[str], set[str]]] = {}
    brokers: set[int] = set()
    for (topic, partition), move in moves.items():
        leaders, followers = topics.setdefault(topic, (set(), set()))
        leaders |= {f"{partition}:{broker}" for broker in move.sources}
        followers |= {f"{partition}:{broker}" for broker in move.destinations}
        brokers |= {*move.sources, *move.destinations}
    for topic, (leaders, followers) in sorted(topics.items()):
        values = {LEADERS: ",".join(sorted(leaders)), FOLLOWERS: ",".join(sorted(followers))}
        _alter(api, TOPIC, topic, [(name, SET, value) for name, value in values.items()])
    for broker in sorted(brokers):
        _alter(api, BROKER, str(broker), [(name, SET, str(rate)) for name in BROKER_RATES])
    return f"The inter-broker throttle limit was set to {rate} B/s\n"


def throttle_directory_moves(api: Api, brokers: Iterable[int], rate: int) -> str:
    """Limit the moves between the directories of brokers and return the output line.

    Raises:
        ClusterError: refused.
    """
    for broker in sorted(set(brokers)):
        _alter(api, BROKER, str(broker), [(LOG_DIR_RATE, SET, str(rate))])
    return f"The replica-alter-dir throttle limit was set to {rate} B/s\n"


def clear_throttles(
    api: Api, plan: Plan, brokers: Iterable[int], tell: Callable[[str], object]
) -> None:
    """Remove all throttles; `tell` takes a line before each kind is removed.

    Raises:
        ClusterError: refused.
    """
    live = set(brokers)
    ids = sorted({*live, *(broker for replicas in plan.values() for broker in replicas)})
    topics = sorted({topic for topic, _ in plan})
    tell(f"Clearing broker-level throttles on broker{_s(ids)} {','.join(map(str, ids))}\n")
    for broker in ids:
        if broker in live:
            names = (*BROKER_RATES, LOG_DIR_RATE)
            _alter(api, BROKER, str(broker), [(name, DELETE, None) for name in names])
    tell(f"Clearing topic-level throttles on topic{_s(topics)} {','.join(topics)}\n")
    for topic in topics:
        _alter(api, TOPIC, topic, [(name, DELETE, None) for name in (LEADERS, FOLLOWERS)])


def _s(things: list[Any]) -> str:
    return "" if len(things) == 1 else "s"


def _alter(api: Api, kind: int, name: str, changes: list[tuple[str, int, str | None]]) -> None:
    module = newest(INCREMENTAL_ALTER_CONFIGS)
    rows = tuple(
        module.AlterableConfig(name=config, config_operation=operation, value=value)
        for config, operation, value in changes
    )
    resource = module.AlterConfigsResource(resource_type=kind, resource_name=name, configs=rows)
    request = module.IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False)
    node = int(name) if kind == BROKER and not api_is_controller(api) else None
    for result in api.call(INCREMENTAL_ALTER_CONFIGS, request, node).responses:
        check(result)
