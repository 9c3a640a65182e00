"""The high watermark that nodes tell, for the stream and for the audit."""

import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import msgspec
import pytest

from inspection.quorum_views import QuorumView
from pipeline.cli import main
from pipeline.core.errors import BadInputError
from pipeline.core.reading.node_watermark import ask_nodes
from pipeline.core.reading.options import parse_options
from pipeline.core.reading.stream import replicas
from tests.pipeline.segments import batch
from tests.pipeline.test_audit_golden import copied

CLUSTER = "Z29sZGVuLXNoYXJlZC0wMQ"
STATIC = Path(__file__).resolve().parent.parent / "golden" / "storage" / "static"


def view(node_id: int, high_watermark: int | None, cluster_id: str = CLUSTER) -> bytes:
    """Answer of a node's inspection API."""
    return msgspec.json.encode(
        QuorumView(
            cluster_id=cluster_id, node_id=node_id, role="follower", leader_id=None,
            leader_epoch=1, high_watermark=high_watermark, log_start_offset=0, log_end_offset=9,
            metadata_offset=0, told_by="this node", voters=[], observers=[], not_ready=[],
            elections=[], leader_loss=None,
        )
    )  # fmt: skip


class _Answers(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        content = self.server.answers.get(self.path)
        self.send_response(404 if content is None else 200)
        self.end_headers()
        self.wfile.write(content or b"")

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[HTTPServer]:
    made = HTTPServer(("127.0.0.1", 0), _Answers)
    made.answers = {}
    thread = threading.Thread(target=made.serve_forever)
    thread.start()
    yield made
    made.shutdown()
    thread.join()
    made.server_close()


def url(server: HTTPServer, node: int) -> str:
    return f"http://127.0.0.1:{server.server_port}/n{node}"


def test_answers_of_nodes(server: HTTPServer) -> None:
    server.answers = {"/n1/v1/quorum": view(1, 50), "/n2/v1/quorum": view(2, None)}
    assert ask_nodes([url(server, 1), url(server, 2) + "/"], CLUSTER) == {1: 50}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "no answer: .*Not Found"),
        (b"{", "no answer"),
        (b"[]", "not the inspection API of a node: list"),
        (b"{}", "not the inspection API of a node: KeyError"),
        (view(1, 5, "other"), "a node of cluster other, the files are of " + CLUSTER),
    ],
)
def test_what_is_no_answer(server: HTTPServer, content: bytes | None, message: str) -> None:
    server.answers = {"/n1/v1/quorum": content}
    with pytest.raises(BadInputError, match=message):
        ask_nodes([url(server, 1)], CLUSTER)


@pytest.mark.parametrize(
    "content", [b"x" * 1000 + b"\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{"]
)
def test_what_is_no_http(content: bytes) -> None:
    """Another service on that port, or an answer cut short."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(content)

        thread = threading.Thread(target=serve)
        thread.start()
        address = f"http://127.0.0.1:{listening.getsockname()[1]}"
        with pytest.raises(BadInputError, match=f"{address}/v1/quorum: no answer: ."):
            ask_nodes([address])
        thread.join()


def test_the_stream_reads_to_what_a_node_knows(server: HTTPServer, tmp_path: Path) -> None:
    """And from the copy of the node that knows most."""
    for node in (1, 2, 3):
        root = copied(STATIC, tmp_path / f"n{node}")
        meta = root / "meta.properties"
        meta.write_text(meta.read_text().replace("node.id=1", f"node.id={node}"))
    server.answers = {"/n1/v1/quorum": view(1, 600), "/n2/v1/quorum": view(2, 670)}
    urls = f"{url(server, 1)},{url(server, 2)}"
    options = parse_options({"path": str(tmp_path), "inspect": urls})
    (found,) = replicas(options).values()
    assert (found.files.node_id, found.end.offset) == (2, 670)
    from_files = replicas(parse_options({"path": str(tmp_path)}))
    assert [one.end.offset for one in from_files.values()] == [671]


def test_the_audit_takes_what_nodes_know_as_committed(
    server: HTTPServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A last batch that differs: an error only when both nodes say that it is committed."""
    for node in (1, 2):
        root = copied(STATIC, tmp_path / f"n{node}")
        meta = root / "meta.properties"
        meta.write_text(meta.read_text().replace("node.id=1", f"node.id={node}"))
    segment = tmp_path / "n2" / "__cluster_metadata-0" / "00000000000000000619.log"
    other = batch(670, [b"other"], keys=[None], epoch=8)
    segment.write_bytes(segment.read_bytes()[:2726] + other)
    command = ["audit", "--input", str(tmp_path), "--inspect", url(server, 1), url(server, 2)]
    server.answers = {"/n1/v1/quorum": view(1, 671), "/n2/v1/quorum": view(2, 671)}
    assert main(command) == 1
    assert "replica_epoch_diff __cluster_metadata-0 offset 670" in capsys.readouterr().err
    server.answers = {"/n1/v1/quorum": view(1, 671), "/n2/v1/quorum": view(2, 670)}
    main(command)
    shown = capsys.readouterr().err
    assert "replica_" not in shown
    assert "info" in shown
    assert "divergent_tail __cluster_metadata-0 offset 670" in shown
