"""A controller that does not lead asks the one that does, over a socket."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from inspection.running_node import DESCRIBE_QUORUM, AskError
from node.leader_client import LeaderClient
from tests.node.test_driver import run, running, turn_over
from wire.errors import ErrorCode
from wire.messages import codec

Address = tuple[str, int]


def question() -> Any:
    new = codec.newest(DESCRIBE_QUORUM, "request")
    partition = new.PartitionData(partition_index=0)
    topic = new.TopicData(topic_name="__cluster_metadata", partitions=(partition,))
    return new.DescribeQuorumRequest(topics=(topic,))


def asking(address: Address) -> LeaderClient:
    return LeaderClient(lambda: address)


async def served(serve: Callable[..., Awaitable[None]]) -> tuple[asyncio.Server, Address]:
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    return server, server.sockets[0].getsockname()


def test_the_leader_tells_how_far_everybody_is() -> None:
    async def scenario() -> None:
        async with running() as (driver, kernel, _):
            while not kernel.core.is_leader:
                await turn_over()
            loop = asyncio.get_running_loop()
            accept = driver.accept
            server = await loop.create_server(lambda: accept("CONTROLLER"), "127.0.0.1", 0)
            address = server.sockets[0].getsockname()
            client = asking(address)
            for _ in range(2):
                answer = await client.ask(DESCRIBE_QUORUM, question())
                assert answer.error_code is ErrorCode.none
                (partition,) = answer.topics[0].partitions
                assert [voter.replica_id for voter in partition.current_voters] == [1]
            server.close()
            await turn_over()

    run(scenario)


def test_nobody_to_ask_is_said() -> None:
    async def scenario() -> None:
        with pytest.raises(AskError, match="no leader is known"):
            await LeaderClient(lambda: None).ask(DESCRIBE_QUORUM, question())

        async def leaves(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.close()

        async def talks_nonsense(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            writer.close()

        for serve in (leaves, talks_nonsense):
            server, address = await served(serve)
            with pytest.raises(AskError):
                await asking(address).ask(DESCRIBE_QUORUM, question())
            server.close()
        with pytest.raises(AskError):
            await asking(address).ask(DESCRIBE_QUORUM, question())
        await turn_over()

    run(scenario)
