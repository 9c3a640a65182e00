"""pytest's fixtures: `kafka`, `kafka_cluster`, `kafka_topic`, `kafka_factory`; the marker `kafka`.

A cluster belongs to one process of pytest: under pytest-xdist each worker has its own, unless
`--kafka-shared` has the process that starts the workers make one for all (testing/shared.py).
What a cluster needs is imported when a test asks for one: this module is in every run of pytest.
"""

import contextlib
import os
import re
import sys
from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from testing.cluster import Cluster

NAME_CHARACTERS_MAX: Final = 100
LOG_BYTES: Final = 8_000
SHARED: Final = "kafka_shared"
"""Name of the setting, of the value that workers are sent, and of the option as its destination."""
WANTED: Final = "kraftline/wanted"
"""Key of pytest's cache: True if the last run started nodes."""
_CLUSTER_MODULE: Final = "testing.cluster"
_FIXTURES: Final = ("kafka", "kafka_cluster", "kafka_factory")
"""Those that start nodes."""
_OF_WORKERS: Final = pytest.StashKey["Cluster"]()
"""The cluster of all workers, in the process that starts them."""

Factory = Callable[..., "Cluster"]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the option and the setting."""
    text = "one node for all workers of pytest-xdist as the fixture kafka, not one for each"
    group = parser.getgroup("kraftline")
    group.addoption("--kafka-shared", dest=SHARED, action="store_true", default=None, help=text)
    parser.addini(SHARED, text, type="bool", default=False)


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker; begin to import a node if the last run wanted one."""
    config.addinivalue_line(
        "markers", "kafka(configs={...}): keys of server.properties for this test's own cluster"
    )
    cache = getattr(config, "cache", None)
    was_wanted = cache is not None and cache.get(WANTED, default=False)
    if was_wanted and (_runs_tests(config) or _is_shared(config)):
        _warm_up()


def _runs_tests(config: pytest.Config) -> bool:
    """True unless it only lists tests, or has workers of pytest-xdist run them."""
    is_over_workers = getattr(config.option, "dist", "no") != "no" and not _is_worker(config)
    return not config.option.collectonly and not is_over_workers


def _is_worker(config: pytest.Config) -> bool:
    return hasattr(config, "workerinput")


def _warm_up() -> None:
    from testing.warm_client import warm_up  # noqa: PLC0415 - see above

    warm_up()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Begin to import a node as soon as a test wants one, while others run; note it."""
    is_wanted = any(_wants_node(item) for item in items)
    cache = getattr(config, "cache", None)
    if cache is not None and cache.get(WANTED, default=False) != is_wanted:
        cache.set(WANTED, is_wanted)
    if is_wanted and _runs_tests(config):
        _warm_up()


def _wants_node(item: pytest.Item) -> bool:
    """True if a test has one of the fixtures here, not one of its own by the same name."""
    known = getattr(getattr(item, "_fixtureinfo", None), "name2fixturedefs", {})
    found = (known.get(name, ())[-1:] for name in _FIXTURES)
    return any(last.func.__module__ == __name__ for defined in found for last in defined)


# ---- one for all workers -----------------------------------------------------------------------


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a worker of pytest-xdist of the cluster of all, which the first one has started."""
    config: pytest.Config = node.config
    if not _is_shared(config):
        return
    from testing.cluster import Cluster  # noqa: PLC0415 - see above
    from testing.shared import told  # noqa: PLC0415

    if _OF_WORKERS not in config.stash:
        cluster = Cluster()
        cluster.start()
        config.stash[_OF_WORKERS] = cluster
    node.workerinput[SHARED] = told(config.stash[_OF_WORKERS])


def _is_shared(config: pytest.Config) -> bool:
    asked: bool | None = config.getoption(SHARED)
    return bool(config.getini(SHARED)) if asked is None else asked


def pytest_unconfigure(config: pytest.Config) -> None:
    """End the cluster of all workers."""
    if _OF_WORKERS in config.stash:
        config.stash[_OF_WORKERS].stop()
        del config.stash[_OF_WORKERS]


# ---- fixtures ----------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def _kafka_of_session(pytestconfig: pytest.Config) -> Iterator["Cluster"]:
    from testing.cluster import Cluster  # noqa: PLC0415 - see above

    found = getattr(pytestconfig, "workerinput", {}).get(SHARED)
    if found is not None:
        from testing.shared import SharedCluster  # noqa: PLC0415

        yield SharedCluster(found)
        return
    with Cluster() as cluster:
        yield cluster


@pytest.fixture
def kafka(request: pytest.FixtureRequest) -> Iterator["Cluster"]:
    """One node for the whole session; for a test with the marker a node of its own."""
    configs = _marked(request.node)
    if configs is None:
        of_session = request.getfixturevalue("_kafka_of_session")
        yield of_session
        of_session.end_faults()  # the next test did not ask for them
        return
    from testing.cluster import Cluster  # noqa: PLC0415 - see above

    with Cluster(configs=configs) as cluster:
        yield cluster


@pytest.fixture
def kafka_cluster(request: pytest.FixtureRequest) -> Iterator["Cluster"]:
    """Three nodes for this test alone, with `kill`, `pause`, `resume`, `restart`, `elect`."""
    from testing.cluster import Cluster  # noqa: PLC0415 - see above

    with Cluster(3, configs=_marked(request.node)) as cluster:
        yield cluster


@pytest.fixture
def kafka_topic(request: pytest.FixtureRequest) -> str:
    """A topic name that no other test has; the first producer makes the topic."""
    return topic_name(request.node.name, os.urandom(4).hex())


@pytest.fixture
def kafka_factory(request: pytest.FixtureRequest) -> Iterator[Factory]:
    """A function that starts a cluster, with the arguments of `Cluster`; it ends with the test."""
    from testing.cluster import Cluster  # noqa: PLC0415 - see above

    with contextlib.ExitStack() as stack:
        configs = _marked(request.node) or {}

        def start(nodes: int = 1, **arguments: Any) -> "Cluster":
            arguments["configs"] = {**configs, **(arguments.get("configs") or {})}
            return stack.enter_context(Cluster(nodes, **arguments))

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
    """Attach the ends of the nodes' logs to the report of a failing test or setup.

    Those of every cluster that is up in this process, whoever started it.
    """
    del item
    report = yield
    if report.failed and call.when in ("setup", "call"):
        module = sys.modules.get(_CLUSTER_MODULE)
        for cluster in [] if module is None else module.RUNNING:
            for node_id, text in cluster.logs(LOG_BYTES).items():
                name = f"kafka node {node_id} at {cluster.bootstrap_servers}"
                report.sections.append((name, text))
    return report
