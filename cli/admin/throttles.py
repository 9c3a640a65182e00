"""Replication throttles during a reassignment: configs of brokers and topics."""

from collections.abc import Iterable
from typing import Any, Final

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


def set_throttles(api: Api, plan: Plan, current: Plan, rate: int) -> None:
    """Limit the replication of the moving partitions.

    Raises:
        ClusterError: refused.
    """
    topics: dict[str, tuple[list[str], list[str]]] = {}
    brokers: set[int] = set()
    for (topic, partition), target in plan.items():
        old = current.get((topic, partition), ())
        leaders, followers = topics.setdefault(topic, ([], []))
        leaders += [f"{partition}:{broker}" for broker in old]
        followers += [f"{partition}:{broker}" for broker in target if broker not in old]
        brokers |= {*old, *target}
    for topic, (leaders, followers) in sorted(topics.items()):
        values = {LEADERS: ",".join(leaders), FOLLOWERS: ",".join(followers)}
        _alter(api, TOPIC, topic, [(n, SET, v) for n, v in values.items() if v])
    for broker in sorted(brokers):
        _alter(api, BROKER, str(broker), [(name, SET, str(rate)) for name in BROKER_RATES])


def clear_throttles(api: Api, plan: Plan, brokers: Iterable[int]) -> str:
    """Remove all throttles and return the output lines.

    Raises:
        ClusterError: refused.
    """
    ids = sorted({*brokers, *(broker for replicas in plan.values() for broker in replicas)})
    topics = sorted({topic for topic, _ in plan})
    live = set(brokers)
    for broker in ids:
        if broker in live:
            names = (*BROKER_RATES, LOG_DIR_RATE)
            _alter(api, BROKER, str(broker), [(name, DELETE, None) for name in names])
    for topic in topics:
        _alter(api, TOPIC, topic, [(name, DELETE, None) for name in (LEADERS, FOLLOWERS)])
    return (
        f"Clearing broker-level throttles on broker{_s(ids)} {','.join(map(str, ids))}\n"
        f"Clearing topic-level throttles on topic{_s(topics)} {','.join(topics)}\n"
    )


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
