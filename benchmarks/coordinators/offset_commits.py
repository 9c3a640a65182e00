"""Commits of offsets: how many a second, and how long one takes that is alone.

Each client is the member of a classic group of its own and commits as soon as the last commit is
acknowledged, so there are as many commits under way as there are clients. Requests are encoded
before; of the answers all are compared with the first one, which is read.
"""

import asyncio
import time
from collections.abc import Sequence
from typing import Any, Final

from benchmarks import report
from benchmarks.coordinators.classic_member import ClassicMember, subscription
from benchmarks.coordinators.session import (
    RefusedError,
    Session,
    all_connected,
    answered,
    close_all,
    coordinators,
    framed,
    schema,
)
from benchmarks.records import Servers, cpu_ms
from wire.api_keys import OFFSET_COMMIT

CLIENTS: Final = 64
PARTITIONS: Final = 20
"""Of the commits of many offsets."""


class _Committer:
    """A client that commits again and again."""

    def __init__(self, session: Session, frame: bytes, expected: bytes, until: float) -> None:
        self._session = session
        self._frame = frame
        self._expected = expected
        self._until = until
        self._begin = 0.0
        self.took: list[float] = []
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def commit(self) -> None:
        """Send one; the next follows the answer."""
        self._begin = time.perf_counter()
        self._session.send(self._frame, self._answered)

    def _answered(self, frame: bytes) -> None:
        now = time.perf_counter()
        self.took.append(now - self._begin)
        if frame != self._expected:
            answer = answered(OFFSET_COMMIT, frame)
            self.done.set_exception(RefusedError(f"OffsetCommit: {answer}"))
        elif now < self._until:
            self.commit()
        else:
            self.done.set_result(None)


async def commits(address: str, servers: Servers, topic: str, seconds: float) -> dict[str, Any]:
    """Commits a second of 64 clients with one partition and with 20, and the time of a lone one."""
    group_ids = [f"commits-{time.time_ns()}-{number}" for number in range(CLIENTS)]
    sessions = await all_connected(await coordinators(address, group_ids))
    members = [
        ClassicMember(session, group_id, topic)
        for session, group_id in zip(sessions, group_ids, strict=True)
    ]
    await asyncio.gather(*(_enter(member, topic) for member in members))
    figures: dict[str, Any] = {}
    for name, count in (("commits", 1), ("commits_of_20", PARTITIONS)):
        frames = [commit_frame(member, topic, range(count)) for member in members]
        await _measured(members, frames, 2 * seconds)  # a JVM compiles what it runs
        before, begin = servers.cpu_s, time.perf_counter()
        took = await _measured(members, frames, seconds)
        wall = time.perf_counter() - begin
        figures[f"{name}_per_s"] = round(len(took) / wall)
        figures[f"{name}_p50_ms"] = report.summary_ms(took)["p50_ms"]
        figures[f"{name}_cpu_ms_each"] = cpu_ms(servers, before, len(took))
    alone = [commit_frame(members[0], topic, range(1))]
    took = await _measured(members[:1], alone, seconds)
    figures["lone_commit_p50_ms"] = report.summary_ms(took)["p50_ms"]
    close_all(sessions)
    return figures


def commit_frame(
    member: ClassicMember, topic: str, partitions: Sequence[int], *, metadata: str = ""
) -> bytes:
    """A commit of one offset of each partition."""
    new = schema(OFFSET_COMMIT)
    rows = tuple(
        new.OffsetCommitRequestPartition(
            partition_index=number, committed_offset=1_000_000, committed_metadata=metadata
        )
        for number in partitions
    )
    request = new.OffsetCommitRequest(
        group_id=member.group_id,
        generation_id_or_member_epoch=member.generation,
        member_id=member.member_id,
        group_instance_id=None,
        topics=(new.OffsetCommitRequestTopic(name=topic, partitions=rows),),
    )
    return framed(OFFSET_COMMIT, request)


def check_committed(frame: bytes) -> None:
    """Raise RefusedError unless all offsets of a commit were taken."""
    for topic in answered(OFFSET_COMMIT, frame).topics:
        for row in topic.partitions:
            if row.error_code.value:
                raise RefusedError(f"OffsetCommit: {row.error_code.name}")


async def _enter(member: ClassicMember, topic: str) -> None:
    found = await member.enter(subscription((topic,)))
    await member.sync([each.member_id for each in found.members])


async def _measured(
    members: list[ClassicMember], frames: list[bytes], seconds: float
) -> list[float]:
    """Seconds that each commit took."""
    expected = await members[0].session.ask_raw(frames[0])
    check_committed(expected)
    until = time.perf_counter() + seconds
    committers = [
        _Committer(member.session, frame, expected, until)
        for member, frame in zip(members, frames, strict=True)
    ]
    for committer in committers:
        committer.commit()
    await asyncio.gather(*(committer.done for committer in committers))
    return [each for committer in committers for each in committer.took]
