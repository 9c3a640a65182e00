"""The loops on which sockets of records are tested."""

import asyncio

import pytest
import uvloop

from tests.node.records.sockets import LIMIT_S, running


@pytest.fixture(params=[asyncio.SelectorEventLoop, uvloop.Loop], ids=["asyncio", "uvloop"])
def run(request):
    def runs(scenario, **options):
        async def limited():
            async with asyncio.timeout(LIMIT_S), running(**options) as node:
                await scenario(node)

        with asyncio.Runner(loop_factory=request.param) as runner:
            runner.run(limited())

    return runs
