"""The blocking client over loopback sockets, with a server that answers by a script."""

import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from cli.client import Client
from cli.connect import DESCRIBE_CLUSTER, Cluster, ClusterError, UnreachableError
from cli.connection_config import ConnectionConfig
from wire.api_table import ListenerKind, api_versions_body, apis
from wire.connections.connection import ServerConnection
from wire.messages.codec import default_request, newest
from wire.messages.conversion import default_entity

METADATA = 3
CREATE_TOPICS = 19
PRODUCE = 0
TABLE = apis(ListenerKind.BROKER, [METADATA])
RECORDS = apis(ListenerKind.BROKER, [METADATA, PRODUCE])
ANSWER = default_entity(newest(METADATA, "response").MetadataResponse)
Listen = Callable[[Callable[[socket.socket], None]], int]


@pytest.fixture
def listen() -> Iterator[Listen]:
    """Starts a server that hands its one connection to a function; gives its port."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(5)
        threads = []

        def start(serve: Callable[[socket.socket], None]) -> int:
            def run() -> None:
                connection, _ = server.accept()
                with connection:
                    serve(connection)

            threads.append(threading.Thread(target=run))
            threads[0].start()
            port: int = server.getsockname()[1]
            return port

        yield start
        for thread in threads:
            thread.join(5)


def serve_kafka(connection: socket.socket) -> None:
    """Answers ApiVersions, and Metadata with the default body, in small portions."""
    protocol = ServerConnection(TABLE, 10_000)
    while received := connection.recv(7):
        for request in protocol.receive(received):
            is_metadata = request.api_key == METADATA
            metadata = default_entity(newest(METADATA, "response").MetadataResponse)
            body = metadata if is_metadata else api_versions_body(TABLE)
            for byte in protocol.respond(request.reply_slot, body):
                connection.sendall(bytes([byte]))


def test_calls_and_their_answers(listen: Listen) -> None:
    client = Client("127.0.0.1", listen(serve_kafka))
    assert client.supports(METADATA)
    assert not client.supports(CREATE_TOPICS)
    for _ in range(2):
        answer = client.call(METADATA, default_request(METADATA))
        assert answer == default_entity(newest(METADATA, "response").MetadataResponse)
    with pytest.raises(ClusterError, match="does not serve CreateTopics"):
        client.call(CREATE_TOPICS, default_request(CREATE_TOPICS))
    client.close()


def test_a_request_that_nobody_answers(listen: Listen) -> None:
    seen = []

    def serve(connection: socket.socket) -> None:
        protocol = ServerConnection(RECORDS, 10_000)
        while received := connection.recv(1000):
            for request in protocol.receive(received):
                seen.append(request.api_key)
                if request.api_key != PRODUCE:
                    metadata = default_entity(newest(METADATA, "response").MetadataResponse)
                    is_metadata = request.api_key == METADATA
                    body = metadata if is_metadata else api_versions_body(RECORDS)
                else:
                    protocol.respond_nothing(request.reply_slot)
                    continue
                connection.sendall(protocol.respond(request.reply_slot, body))

    client = Client("127.0.0.1", listen(serve))
    assert client.version_of(PRODUCE) == 13
    assert client.version_of(CREATE_TOPICS) == -1
    client.send(PRODUCE, default_request(PRODUCE))
    assert client.call(METADATA, default_request(METADATA)) is not None
    with pytest.raises(ClusterError, match="does not serve CreateTopics"):
        client.send(CREATE_TOPICS, default_request(CREATE_TOPICS))
    client.close()
    assert seen[1:] == [PRODUCE, METADATA]


def test_a_connection_that_breaks_is_opened_again() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(5)
        port = server.getsockname()[1]

        def run() -> None:
            for requests in (2, 9):
                connection, _ = server.accept()
                with connection:
                    serve_some(connection, requests)

        thread = threading.Thread(target=run)
        thread.start()
        with Cluster([("127.0.0.1", port)], is_controllers=False) as cluster:
            assert cluster.call(METADATA, default_request(METADATA)) is not None
            with pytest.raises(UnreachableError, match=r"closed the connection|reset|Broken pipe"):
                cluster.call(METADATA, default_request(METADATA))
            assert cluster.call(METADATA, default_request(METADATA)) is not None
            assert cluster.supports(METADATA)
        thread.join(5)


def test_an_answer_that_was_not_waited_for_is_not_that_of_the_next_call() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(5)
        port = server.getsockname()[1]

        def run() -> None:
            connection, _ = server.accept()
            with connection:
                serve_some(connection, 1)
                connection.recv(1000)
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
                connection.settimeout(5)
                while connection.recv(1000):
                    pass
                connection, _ = server.accept()
                with connection:
                    serve_some(connection, 9)

        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        thread = threading.Thread(target=run)
        thread.start()
        with Cluster([("127.0.0.1", port)], is_controllers=False) as cluster:
            with pytest.raises(KeyboardInterrupt):
                cluster.call(METADATA, default_request(METADATA))
            assert cluster.call(METADATA, default_request(METADATA)) is not None
        thread.join(5)
        signal.signal(signal.SIGINT, before)


def serve_some(connection: socket.socket, requests: int) -> None:
    """Answers some requests as `serve_kafka`, then closes."""
    protocol = ServerConnection(TABLE, 10_000)
    while requests and (received := connection.recv(1000)):
        for request in protocol.receive(received):
            requests -= 1
            is_metadata = request.api_key == METADATA
            metadata = default_entity(newest(METADATA, "response").MetadataResponse)
            body = metadata if is_metadata else api_versions_body(TABLE)
            connection.sendall(protocol.respond(request.reply_slot, body))


def test_a_node_that_is_asked_by_its_address() -> None:
    """Over a connection that is closed behind the answer, and with the configs of the others."""
    ids = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(5)
        port = server.getsockname()[1]

        def run() -> None:
            with server.accept()[0] as first:
                serve_some(first, 1)
                for _ in range(2):
                    with server.accept()[0] as second:
                        second.settimeout(5)
                        protocol = ServerConnection(TABLE, 10_000)
                        while received := second.recv(1000):
                            for request in protocol.receive(received):
                                ids.append(request.client_id)
                                is_metadata = request.api_key == METADATA
                                body = ANSWER if is_metadata else api_versions_body(TABLE)
                                second.sendall(protocol.respond(request.reply_slot, body))

        thread = threading.Thread(target=run)
        thread.start()
        here, config = ("127.0.0.1", port), ConnectionConfig(client_id="me")
        with Cluster([here], is_controllers=False, config=config) as cluster:
            assert cluster.ask(here, METADATA, default_request(METADATA)) == ANSWER
            with pytest.raises(ClusterError, match="does not serve CreateTopics"):
                cluster.ask(here, CREATE_TOPICS, default_request(CREATE_TOPICS))
            thread.join(5)
            assert not thread.is_alive(), "both connections are closed"
    assert set(ids) == {"me"}


def test_another_protocol(listen: Listen) -> None:
    port = listen(lambda connection: connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n"))
    with pytest.raises(ClusterError, match=f"127.0.0.1:{port} does not speak Kafka's protocol"):
        Client("127.0.0.1", port)


def test_a_connection_that_closes(listen: Listen) -> None:
    with pytest.raises(UnreachableError, match=r"closed the connection|reset"):
        Client("127.0.0.1", listen(lambda connection: connection.recv(1) and None))


def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(UnreachableError, match=f"127.0.0.1:{port}: Connection refused"):
        Client("127.0.0.1", port)
    with pytest.raises(UnreachableError, match="no node can be reached"):
        Cluster([("127.0.0.1", port)], is_controllers=False)


def test_a_node_that_the_cluster_does_not_name(listen: Listen) -> None:
    table = apis(ListenerKind.BROKER, [DESCRIBE_CLUSTER])
    nobody = default_entity(newest(DESCRIBE_CLUSTER, "response").DescribeClusterResponse)

    def serve(connection: socket.socket) -> None:
        protocol = ServerConnection(table, 10_000)
        while received := connection.recv(1000):
            for request in protocol.receive(received):
                is_cluster = request.api_key == DESCRIBE_CLUSTER
                body = nobody if is_cluster else api_versions_body(table)
                connection.sendall(protocol.respond(request.reply_slot, body))

    with (
        Cluster([("127.0.0.1", listen(serve))], is_controllers=False) as cluster,
        pytest.raises(UnreachableError, match="node 7 is not known"),
    ):
        cluster.call(METADATA, default_request(METADATA), 7)


def test_a_held_answer_is_waited_for_in_pieces_over_its_own_connection() -> None:
    table = apis(ListenerKind.BROKER, [DESCRIBE_CLUSTER, METADATA])
    module, held = newest(DESCRIBE_CLUSTER, "response"), threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(5)
        port = server.getsockname()[1]
        node = replace(
            default_entity(module.DescribeClusterBroker),
            broker_id=7, host="127.0.0.1", port=port,
        )  # fmt: skip
        bodies = {
            DESCRIBE_CLUSTER: replace(
                default_entity(module.DescribeClusterResponse), brokers=(node,)
            ),
            METADATA: default_entity(newest(METADATA, "response").MetadataResponse),
        }

        def serve(connection: socket.socket, *, holds: bool) -> None:
            protocol = ServerConnection(table, 10_000)
            with connection:
                while received := connection.recv(1000):
                    for request in protocol.receive(received):
                        assert not holds or request.api_key != METADATA or held.wait(5)
                        body = bodies.get(request.api_key) or api_versions_body(table)
                        for byte in protocol.respond(request.reply_slot, body):
                            connection.sendall(bytes([byte]))

        def run() -> None:
            threads = []
            for holds in (False, True, True):
                connection, _ = server.accept()
                words = {"target": serve, "args": [connection], "kwargs": {"holds": holds}}
                threads.append(threading.Thread(daemon=True, **words))
                threads[-1].start()
            for thread in threads:
                thread.join(5)
                assert not thread.is_alive(), "its connection is closed"

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        with Cluster([("127.0.0.1", port)], is_controllers=False) as cluster:
            pending = cluster.begin(METADATA, default_request(METADATA), 7)
            assert pending.poll(0) is None
            assert cluster.call(METADATA, default_request(METADATA)) is not None
            assert pending.poll(1) is None
            threading.Timer(0.03, held.set).start()
            assert pending.poll(5000) == bodies[METADATA]
            pending.close()
            with pytest.raises(UnreachableError, match="node 8 is not known"):
                cluster.begin(METADATA, default_request(METADATA), 8)
            with pytest.raises(ClusterError, match="does not serve CreateTopics"):
                cluster.begin(CREATE_TOPICS, default_request(CREATE_TOPICS), 7)
        thread.join(20)
        assert not thread.is_alive(), "all connections are closed"


def test_id_and_timeout_of_its_requests(listen: Listen) -> None:
    ids = []

    def serve(connection: socket.socket) -> None:
        protocol = ServerConnection(TABLE, 10_000)
        while received := connection.recv(1000):
            for request in protocol.receive(received):
                ids.append(request.client_id)
                if request.api_key != METADATA:
                    connection.sendall(
                        protocol.respond(request.reply_slot, api_versions_body(TABLE))
                    )

    config = ConnectionConfig(client_id="me", request_timeout_ms=100)
    where, begin_s = [("127.0.0.1", listen(serve))], time.monotonic()
    with (
        Cluster(where, is_controllers=False, config=config) as cluster,
        pytest.raises(UnreachableError, match="timed out"),
    ):
        cluster.call(METADATA, default_request(METADATA))
    assert set(ids) == {"me"}
    assert time.monotonic() - begin_s < 15
