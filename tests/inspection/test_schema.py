"""schemathesis against a running node: answers fit the document, bad requests are refused."""

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings

from inspection.openapi import document
from tests.inspection.conftest import open_site, ready_world

pytestmark = pytest.mark.interop

STREAM = "/v1/metadata/stream"  # it does not end; tests/inspection/test_stream.py has it


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """A node's API on a loop of its own."""
    loop = asyncio.new_event_loop()
    site = loop.run_until_complete(open_site(ready_world(), 1))
    site.world.run_for(600)
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    yield str(site.client.make_url("/openapi.json"))
    asyncio.run_coroutine_threadsafe(site.client.close(), loop).result(10)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(10)
    loop.close()
    assert site.errors == []


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
        case.call_and_validate()

    check()
