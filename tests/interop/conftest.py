"""Fixtures: one shared healthy cluster, and each of the three clients on it."""

from collections.abc import Iterator

import pytest

from tests.interop import quorum as quorums
from tests.interop.clients import CLIENTS, Client
from tests.interop.quorum import Quorum


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/interop" in str(item.path):
            item.add_marker(pytest.mark.interop)


@pytest.fixture(scope="session")
def quorum(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Quorum]:
    with quorums.running(tmp_path_factory.mktemp("interop") / "quorum") as cluster:
        yield cluster


@pytest.fixture(params=sorted(CLIENTS))
def client(request: pytest.FixtureRequest, quorum: Quorum) -> Iterator[Client]:
    made = CLIENTS[request.param](quorum.bootstrap)
    yield made
    made.close()
