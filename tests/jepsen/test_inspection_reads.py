"""Linearizable reads of a harness client: answers of the API, redirections, refusals."""

from base64 import urlsafe_b64encode
from contextlib import asynccontextmanager
from uuid import UUID

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from jepsen import inspection_reads
from jepsen.connections import Address, CallError

TOPIC_ID = UUID(int=7 << 100)


@asynccontextmanager
async def serving(answer):
    """A node that answers every request so; yields its address and the targets asked for."""
    asked = []

    async def serve(request):
        asked.append(request.path_qs)
        return answer(len(asked))

    app = web.Application()
    app.router.add_get("/{rest:.*}", serve)
    server = TestServer(app)
    await server.start_server()
    try:
        yield Address(server.host, server.port), asked
    finally:
        await server.close()


def found(body):
    return lambda _: web.json_response(body)


def problem(status, **headers):
    return lambda _: web.json_response({"detail": "why"}, status=status, headers=headers)


async def test_a_topic_has_the_id_that_kafkas_protocol_gives():
    text = urlsafe_b64encode(TOPIC_ID.bytes).decode().rstrip("=")
    async with serving(found({"topic_id": text})) as (address, asked):
        assert await inspection_reads.topic_id(address, "a") == str(TOPIC_ID)
        assert asked == ["/v1/topics/a?consistency=linearizable"]


async def test_what_does_not_exist_is_none():
    async with serving(problem(404)) as (address, _):
        assert await inspection_reads.topic_id(address, "a") is None
        assert await inspection_reads.config(address, "a", "retention.ms") is None


async def test_a_config_may_be_unset():
    async with serving(found({"configs": {"retention.ms": "5"}})) as (address, asked):
        assert await inspection_reads.config(address, "a", "retention.ms") == "5"
        assert await inspection_reads.config(address, "a", "segment.ms") is None
        assert asked[0] == "/v1/configs/topic/a?consistency=linearizable"


async def test_a_redirection_is_followed():
    async with serving(found({"configs": {"k": "v"}})) as (leader, asked):
        there = f"http://{leader.host}:{leader.port}/v1/there?consistency=linearizable"
        async with serving(problem(307, Location=there)) as (address, _):
            assert await inspection_reads.config(address, "a", "k") == "v"
        assert asked == ["/v1/there?consistency=linearizable"]


async def test_redirections_end():
    targets = []
    async with serving(lambda _: problem(307, Location=targets[0])(0)) as (address, asked):
        targets.append(f"http://{address.host}:{address.port}/v1/x?y=z")
        with pytest.raises(CallError, match="redirected again and again"):
            await inspection_reads.config(address, "a", "k")
        assert len(asked) == 1 + inspection_reads.REDIRECTIONS_MAX


async def test_a_refusal_and_a_closed_port_are_no_answers():
    async with serving(problem(503)) as (address, _):
        with pytest.raises(CallError, match="503: why"):
            await inspection_reads.config(address, "a", "k")
    with pytest.raises(CallError, match="closed"):
        await inspection_reads.config(address, "a", "k")
