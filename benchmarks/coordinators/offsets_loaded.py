"""Time for which a coordinator is gone that has 100,000 offsets to load when it moves.

Two nodes, one partition of offsets on both: the order of its replicas is turned round, then the
preferred leader is elected. Timed from the election's request until the broker that leads now
answers with a committed offset. Each broker has loaded once before it counts.
"""

import asyncio
import itertools
import time
from typing import Any, Final

from benchmarks import report
from benchmarks.coordinators.classic_member import ClassicMember
from benchmarks.coordinators.offset_commits import check_committed, commit_frame
from benchmarks.coordinators.session import (
    NOT_YET,
    RETRY_S,
    TIMEOUT_S,
    RefusedError,
    Session,
    connected,
    coordinators,
    schema,
)
from wire.api_keys import ALTER_PARTITION_REASSIGNMENTS, ELECT_LEADERS, METADATA, OFFSET_FETCH

OFFSETS_TOPIC: Final = "__consumer_offsets"
PREFERRED: Final = 0
ELECTION_NOT_NEEDED: Final = 84
OFFSETS_PER_COMMIT: Final = 500
POLL_S: Final = 0.005


async def loaded(address: str, topic: str, groups: int, partitions: int, moves: int) -> Any:
    """Move a coordinator with groups * partitions offsets so often; two moves are not measured."""
    group_ids = [f"loaded-{time.time_ns()}-{number}" for number in range(groups)]
    await _fill(address, group_ids, topic, partitions)
    took = [await _move(address, group_ids[-1], topic, partitions) for _ in range(moves + 2)]
    summary = report.summary_ms(took[2:])
    return {
        "offsets": groups * partitions,
        "loaded_ms": summary["p50_ms"],
        "loaded_max_ms": summary["max_ms"],
        "loaded_first_ms": round(1000 * took[0], 1),
    }


async def _fill(address: str, group_ids: list[str], topic: str, partitions: int) -> None:
    """Commit an offset of each partition in each group, as a client that is no member."""
    (home,) = set(await coordinators(address, group_ids))
    session = await connected(home)
    for group_id in group_ids:
        member = ClassicMember(session, group_id, topic)
        await _until_loaded(session, group_id, topic, 0)
        for start in range(0, partitions, OFFSETS_PER_COMMIT):
            chosen = range(start, min(partitions, start + OFFSETS_PER_COMMIT))
            check_committed(await session.ask_raw(commit_frame(member, topic, chosen)))
    session.close()


async def _move(address: str, group_id: str, topic: str, partitions: int) -> float:
    """Seconds for which no broker coordinates the group as its partition gets another leader."""
    session = await connected(address)
    leader, replicas, addresses = await _offsets_partition(session)
    target = next(replica for replica in replicas if replica != leader)
    await _reorder(session, [target, leader])
    await _in_order(session, [target, leader])
    there = await connected(addresses[target])
    begin = time.perf_counter()
    election = asyncio.create_task(_elect(session))
    offset = await _until_loaded(there, group_id, topic, partitions - 1)
    took = time.perf_counter() - begin
    assert offset >= 0, f"{group_id} has lost its offsets"
    await election
    session.close()
    there.close()
    return took


async def _offsets_partition(session: Session) -> tuple[int, list[int], dict[int, str]]:
    """Leader and replicas of the partition of offsets, and the address of each broker."""
    new = schema(METADATA)
    request = new.MetadataRequest(
        topics=(new.MetadataRequestTopic(name=OFFSETS_TOPIC, topic_id=None),),
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=False,
    )
    answer = await session.ask(METADATA, request)
    (topic,) = answer.topics
    (partition,) = topic.partitions
    addresses = {broker.node_id: f"{broker.host}:{broker.port}" for broker in answer.brokers}
    return partition.leader_id, list(partition.replica_nodes), addresses


async def _reorder(session: Session, replicas: list[int]) -> None:
    """Give the partition the same replicas in another order."""
    new = schema(ALTER_PARTITION_REASSIGNMENTS)
    row = new.ReassignablePartition(partition_index=0, replicas=tuple(replicas))
    request = new.AlterPartitionReassignmentsRequest(
        topics=(new.ReassignableTopic(name=OFFSETS_TOPIC, partitions=(row,)),)
    )
    answer = await session.ask(ALTER_PARTITION_REASSIGNMENTS, request)
    codes = [answer.error_code, *(p.error_code for t in answer.responses for p in t.partitions)]
    if any(code.value for code in codes):
        raise RefusedError(f"AlterPartitionReassignments: {codes}")


async def _in_order(session: Session, replicas: list[int]) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while (await _offsets_partition(session))[1] != replicas:
        assert time.monotonic() < deadline, f"the replicas are not {replicas}"
        await asyncio.sleep(RETRY_S)


async def _elect(session: Session) -> None:
    new = schema(ELECT_LEADERS)
    request = new.ElectLeadersRequest(
        election_type=PREFERRED,
        topic_partitions=(new.TopicPartitions(topic=OFFSETS_TOPIC, partitions=(0,)),),
    )
    answer = await session.ask(ELECT_LEADERS, request)
    codes = [row.error_code for each in answer.replica_election_results
             for row in each.partition_result]  # fmt: skip
    if any(code.value not in (0, ELECTION_NOT_NEEDED) for code in codes):
        raise RefusedError(f"ElectLeaders: {codes}")


async def _until_loaded(session: Session, group_id: str, topic: str, partition: int) -> int:
    """The committed offset of a partition, as soon as the broker coordinates the group."""
    new = schema(OFFSET_FETCH)
    group = new.OffsetFetchRequestGroup(
        group_id=group_id,
        member_id=None,
        topics=(new.OffsetFetchRequestTopics(name=topic, partition_indexes=(partition,)),),
    )
    request = new.OffsetFetchRequest(groups=(group,), require_stable=False)
    deadline = time.monotonic() + TIMEOUT_S
    for _ in itertools.count():
        (found,) = (await session.ask(OFFSET_FETCH, request)).groups
        if not found.error_code.value:
            ((row,),) = (each.partitions for each in found.topics)
            return int(row.committed_offset)
        if found.error_code.value not in NOT_YET:
            raise RefusedError(f"OffsetFetch: {found.error_code.name}")
        assert time.monotonic() < deadline, f"{group_id} has no coordinator"
        await asyncio.sleep(POLL_S)
    raise AssertionError("unreachable: the loop ends by return or raise")
