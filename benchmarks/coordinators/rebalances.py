"""Rebalances of a group with many members, and the join of a group's first consumer.

Classic: every member joins again at once, as consumers do that a heartbeat has told; timed from
the first JoinGroup to the last answer to SyncGroup. KIP-848: as many join an empty group at once
and then send heartbeats, all again as soon as all are answered (clients wait for seconds in
between, whatever the broker does); timed from the first one until each owns its share and the
coordinator knows it. The times and the CPU are medians of rounds, after some that only warm up.
"""

import asyncio
import statistics
import time
from typing import Any, Final

from benchmarks import report
from benchmarks.coordinators.classic_member import ClassicMember, subscription
from benchmarks.coordinators.consumer_member import ConsumerMember
from benchmarks.coordinators.session import all_connected, close_all, coordinators
from benchmarks.records import Servers

FIRST_JOINS: Final = 10


async def classic(address: str, servers: Servers, topic: str, members: int, rounds: int) -> Any:
    """Rebalance a classic group so often, after as many rounds that are not measured."""
    group_id = f"classic-{time.time_ns()}"
    (home,) = await coordinators(address, [group_id])
    sessions = await all_connected([home] * members)
    group = [ClassicMember(session, group_id, topic) for session in sessions]
    entered = await asyncio.gather(*(each.enter(subscription((topic,))) for each in group))
    await _sync_all(group, entered)
    took: list[float] = []
    used: list[float] = []
    for number in range(2 * rounds):
        # what a member subscribes to has changed: any member's join is news then
        metadata = subscription((topic,), b"%d" % number)
        frames = [each.join_frame(metadata) for each in group]
        before, begin = servers.cpu_s or 0.0, time.perf_counter()
        await asyncio.gather(*map(ClassicMember.join_and_sync, group, frames))
        took.append(time.perf_counter() - begin)
        used.append((servers.cpu_s or 0.0) - before)
    assert len({each.generation for each in group}) == 1, "one generation"
    close_all(sessions)
    return _figures("classic_rebalance", took[rounds:], used[rounds:])


async def consumer(address: str, servers: Servers, topic: str, members: int, rounds: int) -> Any:
    """Fill consumer groups so often; the topic has as many partitions as there are members."""
    took: list[float] = []
    used: list[float] = []
    for _ in range(2 * rounds):
        group_id = f"consumer-{time.time_ns()}"
        (home,) = await coordinators(address, [group_id])
        sessions = await all_connected([home] * members)
        group = [ConsumerMember(session, group_id, topic) for session in sessions]
        before, begin = servers.cpu_s or 0.0, time.perf_counter()
        await asyncio.gather(*(each.enter() for each in group))
        while any(await asyncio.gather(*(each.heartbeat() for each in group))):
            pass  # somebody owns what he did not, or gave away what another waits for
        took.append(time.perf_counter() - begin)
        used.append((servers.cpu_s or 0.0) - before)
        owned = [each for member in group for each in member.owned]
        assert len(owned) == len(set(owned)) == members, "each partition has one owner"
        await asyncio.gather(*(each.leave() for each in group))
        close_all(sessions)
    return _figures("kip848_rebalance", took[rounds:], used[rounds:])


async def first_joins(address: str, topic: str, initial_delay_ms: int) -> dict[str, Any]:
    """Joins of first consumers: what a classic one waits beyond the broker's delay, a new one."""
    group_ids = [f"first-{time.time_ns()}-{number}" for number in range(2 * FIRST_JOINS)]
    homes = await coordinators(address, group_ids)
    sessions = await all_connected(homes)
    late: list[float] = []
    took: list[float] = []
    for session, group_id in zip(sessions[:FIRST_JOINS], group_ids, strict=False):
        member = ClassicMember(session, group_id, topic)
        begin = time.perf_counter()
        found = await member.enter(subscription((topic,)))
        await member.sync([each.member_id for each in found.members])
        late.append(time.perf_counter() - begin - initial_delay_ms / 1000)
    for session, group_id in zip(sessions[FIRST_JOINS:], group_ids[FIRST_JOINS:], strict=True):
        new_member = ConsumerMember(session, group_id, topic)
        begin = time.perf_counter()
        await new_member.enter()
        while not new_member.owned:
            await new_member.heartbeat()
        took.append(time.perf_counter() - begin)
    close_all(sessions)
    return {
        "first_join_classic_beyond_delay_ms": report.summary_ms(late)["p50_ms"],
        "first_join_kip848_ms": report.summary_ms(took)["p50_ms"],
    }


async def _sync_all(group: list[ClassicMember], entered: list[Any]) -> None:
    await asyncio.gather(
        *(
            member.sync([each.member_id for each in found.members])
            for member, found in zip(group, entered, strict=True)
        )
    )


def _figures(name: str, took: list[float], used: list[float]) -> dict[str, Any]:
    summary = report.summary_ms(took)
    return {
        f"{name}_ms": summary["p50_ms"],
        f"{name}_max_ms": summary["max_ms"],
        f"{name}_cpu_ms": round(1000 * statistics.median(used), 1),
    }
