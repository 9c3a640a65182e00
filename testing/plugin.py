"""pytest's fixtures: `kafka`, `kafka_cluster`, `kafka_topic`, `kafka_factory`; the marker `kafka`.

A cluster belongs to one process of pytest: under pytest-xdist each worker has its own.
"""

import contextlib
import re
import secrets
from collections.abc import Callable, Generator, Iterator
from typing import Any, Final

import pytest

from testing.cluster import Cluster
from testing.warm_client import warm_up

CLUSTERS: Final = pytest.StashKey[list[Cluster]]()
"""Clusters that are up, in the order of their starts."""
NAME_CHARACTERS_MAX: Final = 100
LOG_BYTES: Final = 8_000
_FIXTURES: Final = ("kafka", "kafka_cluster", "kafka_factory")
"""Those that start nodes."""

Factory = Callable[..., Cluster]


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker."""
    config.addinivalue_line(
        "markers", "kafka(configs={...}): keys of server.properties for this test's own cluster"
    )
    config.stash[CLUSTERS] = []


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin to import a node as soon as a test wants one, while others run."""
    if any(_wants_node(item) for item in items):
        warm_up()


def _wants_node(item: pytest.Item) -> bool:
    """True if a test has one of the fixtures here, not one of its own by the same name."""
    known = getattr(getattr(item, "_fixtureinfo", None), "name2fixturedefs", {})
    found = (known.get(name, ())[-1:] for name in _FIXTURES)
    return any(last.func.__module__ == __name__ for defined in found for last in defined)


@contextlib.contextmanager
def _running(config: pytest.Config, cluster: Cluster) -> Iterator[Cluster]:
    with cluster:
        config.stash[CLUSTERS].append(cluster)
        try:
            yield cluster
        finally:
            config.stash[CLUSTERS].remove(cluster)


@pytest.fixture(scope="session")
def _kafka_of_session(pytestconfig: pytest.Config) -> Iterator[Cluster]:
    with _running(pytestconfig, Cluster()) as cluster:
        yield cluster


@pytest.fixture
def kafka(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """One node for the whole session; for a test with the marker a node of its own."""
    configs = _marked(request.node)
    if configs is None:
        shared = request.getfixturevalue("_kafka_of_session")
        yield shared
        shared.end_faults()  # the next test did not ask for them
        return
    with _running(request.config, Cluster(configs=configs)) as cluster:
        yield cluster


@pytest.fixture
def kafka_cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Three nodes for this test alone, with `kill`, `pause`, `resume`, `restart`, `elect`."""
    with _running(request.config, Cluster(3, configs=_marked(request.node))) as cluster:
        yield cluster


@pytest.fixture
def kafka_topic(request: pytest.FixtureRequest) -> str:
    """A topic name that no other test has; the first producer makes the topic."""
    return topic_name(request.node.name, secrets.token_hex(4))


@pytest.fixture
def kafka_factory(request: pytest.FixtureRequest) -> Iterator[Factory]:
    """A function that starts a cluster, with the arguments of `Cluster`; it ends with the test."""
    with contextlib.ExitStack() as stack:
        configs = _marked(request.node) or {}

        def start(nodes: int = 1, **arguments: Any) -> Cluster:
            arguments["configs"] = {**configs, **(arguments.get("configs") or {})}
            return stack.enter_context(_running(request.config, Cluster(nodes, **arguments)))

        yield start


def topic_name(test: str, suffix: str) -> str:
    """A legal name of a topic that begins with that of a test."""
    legal = re.sub(r"[^a-zA-Z0-9_-]+", "-", test)
    return f"{legal[:NAME_CHARACTERS_MAX]}-{suffix}"


def merged_configs(marks: list[dict[str, Any]]) -> dict[str, str] | None:
    """Configs of a test's markers, the nearest first, which is the strongest; None without one."""
    if not marks:
        return None
    merged: dict[str, str] = {}
    for configs in reversed(marks):
        merged |= {key: str(value) for key, value in configs.items()}
    return merged


def _marked(node: pytest.Item) -> dict[str, str] | None:
    marks = []
    for mark in node.iter_markers("kafka"):
        if mark.args or set(mark.kwargs) - {"configs"}:
            raise pytest.UsageError("the marker is kafka(configs={...})")
        marks.append(mark.kwargs.get("configs", {}))
    return merged_configs(marks)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Attach the ends of the nodes' logs to the report of a failing test."""
    report = yield
    if report.failed and call.when in ("setup", "call"):
        for cluster in item.config.stash.get(CLUSTERS, []):
            for node_id, text in cluster.logs(LOG_BYTES).items():
                name = f"kafka node {node_id} at {cluster.bootstrap_servers}"
                report.sections.append((name, text))
    return report
