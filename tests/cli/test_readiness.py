"""`kraftline server ready`: the answer and its exit code."""

import socket
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import pytest

from cli.connect import ENDPOINT_BROKERS, ENDPOINT_CONTROLLERS
from cli.main import main
from cli.readiness import asked, connection, of_cluster, of_health, reachable, reasons
from node.configs.config import node_config
from node.configs.environment import DEFAULTS
from node.configs.sources import configuration
from wire.types import Endpoint


@pytest.mark.parametrize(
    ("kind", "brokers", "controller", "reason"),
    [
        (ENDPOINT_BROKERS, [1, 7], -1, None),
        (ENDPOINT_BROKERS, [1], 1, "the broker is fenced"),
        (ENDPOINT_BROKERS, [], 7, "the broker is fenced"),
        (ENDPOINT_CONTROLLERS, [], 1, None),
        (ENDPOINT_CONTROLLERS, [], 0, None),
        (ENDPOINT_CONTROLLERS, [7], -1, "no active controller"),
    ],
)
def test_readiness_by_a_described_cluster(
    kind: int, brokers: list[int], controller: int, reason: str | None
) -> None:
    rows = [SimpleNamespace(broker_id=each) for each in brokers]
    answer = SimpleNamespace(brokers=rows, controller_id=controller)
    assert of_cluster(answer, kind, 7) == reason


@pytest.mark.parametrize(
    ("status", "body", "reason"),
    [
        (200, b"", None),
        (503, b'{"status":"failed","failed":["caught_up","unfenced"]}', "caught_up, unfenced"),
        (503, b'{"status":"failed"}', "HTTP status 503"),
        (500, b"broken", "HTTP status 500"),
        (503, b"[]", "HTTP status 503"),
    ],
)
def test_readiness_by_http(status: int, body: bytes, reason: str | None) -> None:
    assert of_health(status, body) == reason


@pytest.fixture
def http() -> Iterator[Callable[[bytes], int]]:
    """A server that answers one request with the bytes given; returns its port."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(5)
        threads = []

        def serve(answer: bytes) -> None:
            connection, _ = server.accept()
            with connection:
                assert connection.recv(4096).startswith(b"GET /readyz HTTP/1.1\r\n")
                connection.sendall(answer)

        def start(answer: bytes) -> int:
            threads.append(threading.Thread(target=serve, args=[answer]))
            threads[-1].start()
            return int(server.getsockname()[1])

        yield start
        for thread in threads:
            thread.join()


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_a_node_with_a_listener_for_http_is_asked_there_alone(
    http: Callable[[bytes], int], host: str
) -> None:
    body = b'{"failed": ["moved"]}'
    port = http(b"HTTP/1.1 503 -\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body))
    config = node_config({**DEFAULTS, "inspection.listener": f"{host}:{port}"})
    assert list(reasons(config, 5)) == ["moved"]


def test_a_ready_node_has_no_reason(
    http: Callable[[bytes], int], capsys: pytest.CaptureFixture[str]
) -> None:
    port = http(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
    words = ["--override", f"inspection.listener=127.0.0.1:{port}"]
    assert main(["server", "ready", *words]) == 0
    assert capsys.readouterr().out == "node 1 is ready\n"


def test_an_answer_that_is_no_http(http: Callable[[bytes], int]) -> None:
    config = node_config({**DEFAULTS, "inspection.listener": f"127.0.0.1:{http(b'what')}"})
    (reason,) = reasons(config, 5)
    assert "what" in reason


@pytest.fixture
def nobody() -> Iterator[tuple[int, int]]:
    """Two ports where nobody listens."""
    with socket.socket() as one, socket.socket() as other:
        one.bind(("127.0.0.1", 0))
        other.bind(("127.0.0.1", 0))
        yield one.getsockname()[1], other.getsockname()[1]


def test_nobody_there_is_not_ready(
    nobody: tuple[int, int], capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--override", f"inspection.listener=127.0.0.1:{nobody[0]}"]
    assert main(["server", "ready", *words]) == 1
    shown = capsys.readouterr().out
    assert shown.startswith(f"node 1 is not ready: 127.0.0.1:{nobody[0]}: ")
    assert shown.count("\n") == 1


def test_both_roles_are_asked(nobody: tuple[int, int]) -> None:
    broker, controller = (f"127.0.0.1:{port}" for port in nobody)
    listeners = {"listeners": f"PLAINTEXT://{broker},CONTROLLER://{controller}"}
    config = node_config({**DEFAULTS, **listeners, "advertised.listeners": f"PLAINTEXT://{broker}"})
    silent = [reason.split()[5].rstrip(":") for reason in reasons(config, 1)]
    assert silent == [broker, controller]
    kinds = (ENDPOINT_BROKERS, ENDPOINT_CONTROLLERS)
    assert asked(config) == [(("127.0.0.1", p), k) for p, k in zip(nobody, kinds, strict=True)]


def test_a_mere_controller_is_asked_as_such(nobody: tuple[int, int]) -> None:
    at = f"127.0.0.1:{nobody[0]}"
    roles = {"process.roles": "controller", "listeners": f"CONTROLLER://{at}"}
    keys = {**DEFAULTS, **roles}
    del keys["advertised.listeners"], keys["inter.broker.listener.name"]
    (reason,) = reasons(node_config(keys), 1)
    assert at in reason


@pytest.mark.parametrize(
    ("host", "from_here"),
    [("", "127.0.0.1"), ("0.0.0.0", "127.0.0.1"), ("::", "::1"), ("10.0.0.1", "10.0.0.1")],
)
def test_a_listener_on_all_interfaces_is_on_loopback(host: str, from_here: str) -> None:
    assert reachable(Endpoint("PLAINTEXT", host, 1)) == (from_here, 1)


def test_the_limit_of_an_answer_is_in_seconds() -> None:
    assert connection(5).request_timeout_ms == 5_000


def test_settings_that_are_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KAFKA_NODE_ID", "x")
    assert main(["server", "ready"]) == 1
    assert capsys.readouterr().err.count("\n") == 1


def test_a_file_is_the_settings_and_variables_only_if_they_are_asked_for(tmp_path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in DEFAULTS.items()))
    variables = {"KAFKA_BROKER_RACK": "a"}
    for is_stronger, rack in ((False, None), (True, "a")):
        found = configuration(file, [], variables, is_environment_stronger=is_stronger)
        assert found.broker.rack == rack
        overridden = configuration(
            file, ["broker.rack=b"], variables, is_environment_stronger=is_stronger
        )
        assert overridden.broker.rack == "b"
    assert configuration(None, ["broker.rack=b"], {}, is_environment_stronger=False).node_id == 1
