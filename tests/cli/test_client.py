"""The blocking client over loopback sockets, with a server that answers by a script."""

import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from cli.client import Client
from cli.connect import ClusterError
from wire.api_table import ListenerKind, api_versions_body, apis
from wire.codec import default_request, newest
from wire.connection import ServerConnection
from wire.conversion import default_entity

METADATA = 3
CREATE_TOPICS = 19
TABLE = apis(ListenerKind.BROKER, [METADATA])
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


def test_another_protocol(listen: Listen) -> None:
    port = listen(lambda connection: connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n"))
    with pytest.raises(ClusterError, match=f"127.0.0.1:{port} does not speak Kafka's protocol"):
        Client("127.0.0.1", port)


def test_a_connection_that_closes(listen: Listen) -> None:
    with pytest.raises(ClusterError, match=r"closed the connection|reset"):
        Client("127.0.0.1", listen(lambda connection: connection.recv(1) and None))


def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(ClusterError, match=f"127.0.0.1:{port}: Connection refused"):
        Client("127.0.0.1", port)
