"""CPU of a coordinator of many groups that do nothing: one member each, which is heard of.

Heartbeats come as the clients send them by default: every 3 s by the classic protocol, every 5 s
by KIP-848. Nothing is fetched or committed.
"""

import asyncio
import time
from typing import Any, Final

from benchmarks.coordinators.classic_member import ClassicMember, subscription
from benchmarks.coordinators.consumer_member import ConsumerMember
from benchmarks.coordinators.session import (
    Session,
    all_connected,
    close_all,
    coordinators,
    heartbeat_error,
)
from benchmarks.records import Servers

CLASSIC_INTERVAL_S: Final = 3.0
CONSUMER_INTERVAL_S: Final = 5.0
AT_ONCE: Final = 50
"""Members that enter at once."""


async def idle(
    address: str, servers: Servers, topic: str, groups: int, seconds: float
) -> dict[str, Any]:
    """Share of a core that the brokers use without groups, and with so many of either kind."""
    figures = {"no_groups_cpu_pct": await _share(servers, seconds)}
    for kind, interval_s in (("classic", CLASSIC_INTERVAL_S), ("kip848", CONSUMER_INTERVAL_S)):
        group_ids = [f"idle-{time.time_ns()}-{number}" for number in range(groups)]
        sessions = await all_connected(await coordinators(address, group_ids))
        frames: list[bytes] = []
        for start in range(0, groups, AT_ONCE):
            some = zip(sessions[start : start + AT_ONCE], group_ids[start:], strict=False)
            enter = _entered_classic if kind == "classic" else _entered_consumer
            frames += await asyncio.gather(*(enter(each, name, topic) for each, name in some))
        beats = [
            asyncio.create_task(_beat(session, frame, interval_s * number / groups, interval_s))
            for number, (session, frame) in enumerate(zip(sessions, frames, strict=True))
        ]
        await asyncio.sleep(interval_s)
        figures[f"{kind}_groups_cpu_pct"] = await _share(servers, seconds)
        ended = [each for each in beats if each.done()]
        assert not ended, f"{len(ended)} members have ended: {ended[0].exception()}"
        for beat in beats:
            beat.cancel()
        await asyncio.gather(*beats, return_exceptions=True)
        close_all(sessions)
    return figures


async def _share(servers: Servers, seconds: float) -> float | None:
    before, begin = servers.cpu_s, time.perf_counter()
    await asyncio.sleep(seconds)
    now = servers.cpu_s
    if before is None or now is None:
        return None
    return round(100 * (now - before) / (time.perf_counter() - begin), 1)


async def _entered_classic(session: Session, group_id: str, topic: str) -> bytes:
    member = ClassicMember(session, group_id, topic)
    found = await member.enter(subscription((topic,)))
    await member.sync([each.member_id for each in found.members])
    return member.heartbeat_frame()


async def _entered_consumer(session: Session, group_id: str, topic: str) -> bytes:
    member = ConsumerMember(session, group_id, topic)
    await member.enter()
    while not member.owned or await member.heartbeat():
        pass  # what it owns is not acknowledged
    return member.heartbeat_frame()


async def _beat(session: Session, frame: bytes, delay_s: float, interval_s: float) -> None:
    await asyncio.sleep(delay_s)
    while True:
        code = heartbeat_error(await session.ask_raw(frame))
        assert not code, f"a heartbeat is answered with error {code}"
        await asyncio.sleep(interval_s)
