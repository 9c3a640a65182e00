"""The pure parts of the pytest plugin."""

import asyncio
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

import testing
from testing import plugin
from testing.cluster import RUNNING, Cluster, ClusterError
from testing.plugin import (
    SHARED,
    WANTED,
    _is_shared,
    _runs_tests,
    merged_configs,
    pytest_collection_modifyitems,
    pytest_configure,
    topic_name,
)
from testing.shared import SharedCluster, told
from testing.warm_client import WarmError


def test_a_topic_is_named_by_its_test():
    assert topic_name("test_a[é x.y]", "ab") == "test_a-x-y--ab"
    assert topic_name("t" * 300, "ab") == "t" * 100 + "-ab"


def test_the_nearest_marker_is_the_strongest():
    assert merged_configs([{"a": 1}, {"a": 2, "b": 3}]) == {"a": "1", "b": "3"}
    assert merged_configs([{}]) == {}
    assert merged_configs([]) is None


def own():
    """A fixture of somebody else."""


def node():
    """A fixture of the plugin."""


node.__module__ = plugin.__name__


@pytest.mark.parametrize(
    ("defined", "wants"),
    [
        ({}, False),
        ({"kafka": [node]}, True),
        ({"kafka_factory": [node], "tmp_path": [own]}, True),
        ({"kafka_topic": [node]}, False),
        ({"kafka": [node, own]}, False),
        ({"kafka": [own, node]}, True),
    ],
)
def test_a_node_is_imported_for_fixtures_of_the_plugin_alone(defined, wants):
    definitions = {
        name: tuple(SimpleNamespace(func=func) for func in functions)
        for name, functions in defined.items()
    }
    item = SimpleNamespace(_fixtureinfo=SimpleNamespace(name2fixturedefs=definitions))
    assert plugin._wants_node(item) is wants
    assert not plugin._wants_node(SimpleNamespace())


class Cache(dict):
    """pytest's cache."""

    set = dict.__setitem__

    def get(self, key, *, default):
        return dict.get(self, key, default)


class Config(SimpleNamespace):
    """The part of pytest's configuration that the plugin asks."""

    def __init__(self, *, dist="no", collectonly=False, shared=None, ini=False, **more):
        option = SimpleNamespace(dist=dist, collectonly=collectonly)
        super().__init__(option=option, cache=Cache(), shared=shared, ini=ini, **more)

    def addinivalue_line(self, name, line):
        assert (name, line.partition("(")[0]) == ("markers", "kafka")

    def getoption(self, name):
        assert name == SHARED
        return self.shared

    def getini(self, name):
        assert name == SHARED
        return self.ini


@pytest.mark.parametrize(
    ("config", "runs"),
    [
        (Config(), True),
        (Config(collectonly=True), False),
        (Config(dist="load"), False),
        (Config(dist="load", workerinput={}), True),
        (Config(workerinput={}), True),
    ],
)
def test_who_runs_tests(config, runs):
    assert _runs_tests(config) is runs
    del config.option.dist
    assert _runs_tests(config) is not config.option.collectonly, "without pytest-xdist"


@pytest.mark.parametrize(
    ("shared", "ini", "is_shared"), [(None, False, False), (None, True, True), (True, False, True)]
)
def test_one_for_all_by_option_or_setting(shared, ini, is_shared):
    assert _is_shared(Config(shared=shared, ini=ini)) is is_shared


@pytest.fixture
def warmed(monkeypatch):
    count = []
    monkeypatch.setattr(plugin, "_warm_up", lambda: count.append(1))
    return count


WANTING = SimpleNamespace(
    _fixtureinfo=SimpleNamespace(name2fixturedefs={"kafka": (SimpleNamespace(func=node),)})
)


def test_a_run_begins_to_import_where_the_last_one_did(warmed):
    config = Config()
    pytest_configure(config)
    assert warmed == []
    pytest_collection_modifyitems(config, [SimpleNamespace(), WANTING])
    assert (len(warmed), config.cache) == (1, {WANTED: True})
    pytest_configure(config)
    assert len(warmed) == 2
    pytest_collection_modifyitems(config, [SimpleNamespace()])
    assert (len(warmed), config.cache) == (2, {WANTED: False})
    pytest_configure(config)
    assert len(warmed) == 2


def test_who_runs_no_tests_imports_no_node(warmed):
    config = Config(dist="load")
    config.cache[WANTED] = True
    pytest_configure(config)
    pytest_collection_modifyitems(config, [WANTING])
    assert warmed == []
    config.shared = True
    pytest_configure(config)
    assert warmed == [1], "it is to start the one for all"


def test_without_a_cache_a_node_is_imported_when_it_is_wanted(warmed):
    config = Config()
    del config.cache
    pytest_configure(config)
    pytest_collection_modifyitems(config, [WANTING])
    assert warmed == [1]


def test_a_shared_cluster_is_one_to_connect_to(tmp_path):
    told_of = SimpleNamespace(nodes=1, bootstrap_servers="h:1", folder=tmp_path)
    (tmp_path / "node1.log").write_text("a line")
    cluster = SharedCluster(told(told_of))
    try:
        assert cluster.bootstrap_servers == "h:1"
        assert cluster.logs() == {1: "a line"}
        assert cluster in RUNNING
        cluster.end_faults()
        for refused in (
            cluster.start,
            cluster.stop,
            lambda: cluster.kill(1),
            lambda: cluster.refuse("Produce", "INVALID_RECORD"),
            lambda: cluster.leader("t"),
            lambda: cluster.restart(1),
        ):
            with pytest.raises(ClusterError, match="that of all workers"):
                refused()
    finally:
        RUNNING.remove(cluster)


def test_a_cluster_without_a_folder_has_no_logs_to_report(monkeypatch):
    """A test may fail while another thread starts one."""
    shown = []

    class Asked:
        is_usable = False

        def ask(self, _op):
            shown.extend(one.logs() for one in RUNNING)
            raise WarmError("seen")

    monkeypatch.setattr(testing.cluster, "warm_up", Asked)
    with pytest.raises(WarmError, match="seen"):
        Cluster().start()
    assert shown == []
    assert RUNNING == []


@pytest.mark.parametrize("fails", [False, True])
def test_a_cluster_whose_start_is_cancelled_ends(fails):
    begun, going_on, ended = threading.Event(), threading.Event(), []

    class Slow(Cluster):
        def start(self):
            begun.set()
            going_on.wait()
            if fails:
                raise ClusterError("not up")

        def stop(self):
            ended.append(self)

    async def scenario():
        entering = asyncio.create_task(Slow().__aenter__())
        await asyncio.to_thread(begun.wait)
        entering.cancel()
        going_on.set()
        with pytest.raises(asyncio.CancelledError):
            await entering

    asyncio.run(scenario())
    assert len(ended) == (not fails)


def test_every_pytest_imports_little():
    code = (
        "import sys, testing.plugin as p; print(*{'asyncio', 'msgspec', 'subprocess', "
        "p._CLUSTER_MODULE} & set(sys.modules))"
    )
    command = [sys.executable, "-c", code]
    root = Path(testing.__file__).parents[1]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=root)
    assert done.stdout.strip() in ("", "subprocess"), "pytest itself imports that"


def test_names_of_the_package():
    assert {name: getattr(testing, name) for name in testing.__all__}.keys() == set(testing._HOMES)
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        testing.nothing  # noqa: B018
