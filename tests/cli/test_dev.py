"""`kraftline dev`: command line and ready line; tests/interop/test_testing.py runs it."""

import json

import pytest

from cli import dev
from cli.dev import _parse, run
from cli.dev_cluster import cluster_of, ready_line
from testing import settings


def test_options():
    cluster = cluster_of(_parse(["--nodes", "3", "--config", "a.b = c=d", "--port", "9"]))
    assert cluster.nodes == 3
    assert cluster._configs == {"a.b": "c=d"}
    assert cluster._port == 9
    assert cluster._kept is None
    assert str(cluster_of(_parse(["--dir", "x"]))._kept) == "x"
    assert cluster_of(_parse([])).nodes == 1


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ("num.partitions", "--config num.partitions is not KEY=VALUE\n"),
        ("node.id=3", "the cluster sets node.id itself\n"),
    ],
)
def test_refused_configs(entry, reason, capsys):
    assert run(["--config", entry]) == 1
    assert capsys.readouterr().err == reason


@pytest.mark.parametrize("words", [["--nodes", "0"], ["--nodes", "10"], ["--port", "65536"]])
def test_refused_numbers(words):
    with pytest.raises(SystemExit):
        _parse(words)


def test_ready_lines():
    line = ready_line("h:1,h:2", "/f", as_json=True)
    assert json.loads(line) == {"bootstrap_servers": "h:1,h:2", "folder": "/f"}
    text = ready_line("h:1,h:2", "/f", as_json=False)
    assert text.startswith("ready: bootstrap.servers=h:1,h:2\n")
    assert "--bootstrap-server h:1\n" in text


def test_as_many_nodes_as_a_cluster_may_have():
    assert dev.NODES_MAX == settings.NODES_MAX
