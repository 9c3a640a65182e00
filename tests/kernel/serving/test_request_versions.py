"""The version of a request reaches the handlers whose answer depends on it."""

from typing import Any

import pytest

from tests.kernel.test_kernel import ready_world
from wire.api_keys import LIST_CONFIG_RESOURCES
from wire.messages import codec


@pytest.mark.parametrize(("version", "listed"), [(0, set()), (1, {"1", "a"})])
def test_version_0_lists_client_metrics_only(version: int, listed: set[str]) -> None:
    world = ready_world(1)
    world.client(1).create_topic("a")
    received: list[bytes] = []
    pipe = world.open_client(1, "PLAINTEXT", received.append)
    body = codec.newest(LIST_CONFIG_RESOURCES, "request").ListConfigResourcesRequest(
        resource_types=()
    )
    frame = codec.encode_request(LIST_CONFIG_RESOURCES, version, 7, "app", body)
    world.send(pipe, len(frame).to_bytes(4, "big") + frame)
    world.run_until(lambda: bool(received), 5_000)
    answer: Any = codec.decode_response(LIST_CONFIG_RESOURCES, version, received[0][4:])[1]
    assert {row.resource_name for row in answer.config_resources} == listed
