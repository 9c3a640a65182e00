"""schemathesis against a running node: answers fit the document, bad requests are refused."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.specs.openapi.checks import negative_data_rejection

from inspection.openapi import document
from inspection.resources import Service
from inspection.running_node import RunningNode
from inspection.server import HttpServer, Limits
from tests.inspection.conftest import ready_world
from tests.inspection.records import Beside

pytestmark = pytest.mark.interop

STREAM = "/v1/metadata/stream"  # it does not end; tests/inspection/test_stream.py has it


async def confirmed() -> None:
    """Every linearizable read is one."""


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """A node's API on a loop of its own."""
    loop, world, errors = asyncio.new_event_loop(), ready_world(), list[str]()
    kernel = world.kernel(1)
    node = RunningNode(kernel, world._now, records=Beside(kernel), confirm_read=confirmed)
    service = Service(node)
    world.run_for(600)
    server = HttpServer(service, Limits(), lambda path, stack: errors.append(f"{path}\n{stack}"))
    listening = socket.create_server(("127.0.0.1", 0))
    listening.setblocking(False)
    port = listening.getsockname()[1]
    loop.run_until_complete(server.start(listening))
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    yield f"http://127.0.0.1:{port}/openapi.json"
    asyncio.run_coroutine_threadsafe(server.close(), loop).result(10)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(10)
    loop.close()
    assert errors == []


PATHS = document()["paths"]
CASES = [
    (path, mode)
    for path in PATHS
    for mode in ("positive", "negative")
    if path != STREAM
    # Negative needs something that can be wrong: most texts in a path are right or not found.
    and (
        mode == "positive"
        or {p["in"] for p in PATHS[path]["get"].get("parameters", ())} & {"query"}
    )
]


@pytest.mark.parametrize(("path", "mode"), CASES)
def test_every_answer_is_as_documented(url: str, path: str, mode: str) -> None:
    operation = schemathesis.openapi.from_url(url)[path]["GET"]
    cases = operation.as_strategy(generation_mode=schemathesis.GenerationMode(mode))

    @given(case=cases)
    @settings(
        max_examples=25, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
    )
    def check(case: Any) -> None:
        response = case.call()
        too_long = response.status_code == HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
        # For schemathesis 431 is no refusal of bad data; whether it is documented is checked.
        case.validate_response(
            response, excluded_checks=[negative_data_rejection] if too_long else []
        )

    check()
