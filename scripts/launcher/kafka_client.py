"""Two requests of the Kafka protocol by hand: DescribeQuorum v1 and DescribeCluster v2.

Both are flexible in every version: request header v2, response header v1, compact lengths (n + 1 as
unsigned varint, 0 for null), tagged fields at the end of each struct.
"""

import socket
import struct
from dataclasses import dataclass
from typing import Any

DESCRIBE_QUORUM = 55
DESCRIBE_CLUSTER = 60
DESCRIBE_QUORUM_VERSION = 1
DESCRIBE_CLUSTER_VERSION = 2
METADATA_TOPIC = b"__cluster_metadata"
CLIENT_ID = b"quorum"
CORRELATION_ID = 1
BROKERS = 1
VARINT_BYTES_MAX = 5
RESPONSE_BYTES_MAX = 16 * 1024 * 1024
NO_ERROR = 0
NO_TAGS = b"\x00"


class NoAnswerError(Exception):
    """The node did not answer, or with something that cannot be read."""


@dataclass(frozen=True)
class QuorumView:
    """DescribeQuorum as the leader answers it; log end offsets are exclusive, -1 is unknown."""

    leader_id: int
    leader_epoch: int
    high_watermark: int
    voter_ends: dict[int, int]
    observer_ends: dict[int, int]


@dataclass(frozen=True)
class ClusterView:
    """DescribeCluster: registered brokers with whether they are fenced."""

    cluster_id: str
    fenced_by_broker: dict[int, bool]


class Reader:
    """Takes values off a response; too few bytes raise NoAnswerError."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.position = 0

    def number(self, layout: str) -> Any:
        """One big-endian number, `layout` as in struct without the order sign."""
        try:
            (value,) = struct.unpack_from(">" + layout, self.content, self.position)
        except struct.error as error:
            raise NoAnswerError("response is too short") from error
        self.position += struct.calcsize(">" + layout)
        return value

    def varint(self) -> int:
        """Unsigned varint of 32 bits."""
        value = 0
        for shift in range(0, 7 * VARINT_BYTES_MAX, 7):
            byte = self.number("B")
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return int(value)
        raise NoAnswerError("a varint is too long")

    def raw(self, length: int) -> bytes:
        """Read `length` bytes."""
        found = self.content[self.position : self.position + length]
        if len(found) != length:
            raise NoAnswerError("response is too short")
        self.position += length
        return found

    def text(self) -> str | None:
        """Compact string, None for null."""
        length = self.varint() - 1
        if length < 0:
            return None
        return self.raw(length).decode(errors="replace")

    def count(self) -> int:
        """Length of a compact array, 0 for null."""
        return max(self.varint() - 1, 0)

    def tags(self) -> None:
        """Skip tagged fields."""
        for _ in range(self.varint()):
            self.varint()
            self.raw(self.varint())


def describe_quorum_request() -> bytes:
    """The frame with its length, asking for the metadata partition."""
    partition = struct.pack(">i", 0) + NO_TAGS
    topic = _compact(METADATA_TOPIC) + b"\x02" + partition + NO_TAGS
    return _frame(DESCRIBE_QUORUM, DESCRIBE_QUORUM_VERSION, b"\x02" + topic + NO_TAGS)


def describe_cluster_request() -> bytes:
    """The frame with its length, asking for all brokers, the fenced ones too."""
    without_operations, with_fenced = 0, 1
    body = struct.pack(">BbB", without_operations, BROKERS, with_fenced) + NO_TAGS
    return _frame(DESCRIBE_CLUSTER, DESCRIBE_CLUSTER_VERSION, body)


def decode_describe_quorum(frame: bytes) -> QuorumView | None:
    """The view of the leader; None when the node asked is not the leader or knows none."""
    reader = _response(frame)
    if reader.number("h") != NO_ERROR:
        return None
    for _ in range(reader.count()):
        reader.text()
        for _ in range(reader.count()):
            reader.number("i")
            error = reader.number("h")
            leader_id, epoch = reader.number("i"), reader.number("i")
            high_watermark = reader.number("q")
            voters, observers = _replicas(reader), _replicas(reader)
            reader.tags()
            if error == NO_ERROR and leader_id >= 0:
                return QuorumView(leader_id, epoch, high_watermark, voters, observers)
        reader.tags()
    return None


def decode_describe_cluster(frame: bytes) -> ClusterView | None:
    """The brokers; None when the node refuses."""
    reader = _response(frame)
    reader.number("i")  # throttle time
    if reader.number("h") != NO_ERROR:
        return None
    reader.text()  # error message
    reader.number("b")  # endpoint type
    cluster_id = reader.text() or ""
    reader.number("i")  # controller id
    fenced: dict[int, bool] = {}
    for _ in range(reader.count()):
        broker_id = reader.number("i")
        reader.text()  # host
        reader.number("i")  # port
        reader.text()  # rack
        fenced[broker_id] = reader.number("?")
        reader.tags()
    return ClusterView(cluster_id, fenced)


def ask_quorum(address: str, timeout: float = 1.0) -> QuorumView | None:
    """Ask one node for the quorum; None if it cannot be reached or is not the leader."""
    try:
        return decode_describe_quorum(_exchange(address, describe_quorum_request(), timeout))
    except (OSError, NoAnswerError):
        return None


def ask_cluster(address: str, timeout: float = 1.0) -> ClusterView | None:
    """Ask one node for the brokers; None if it cannot be reached."""
    try:
        return decode_describe_cluster(_exchange(address, describe_cluster_request(), timeout))
    except (OSError, NoAnswerError):
        return None


def answers(address: str, timeout: float = 1.0) -> bool:
    """True if a node answers a request at all; one that loads does not yet."""
    try:
        _exchange(address, describe_cluster_request(), timeout)
    except (OSError, NoAnswerError):
        return False
    return True


def _exchange(address: str, request: bytes, timeout: float) -> bytes:
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=timeout) as connection:
        connection.sendall(request)
        (length,) = struct.unpack(">i", _receive(connection, 4))
        if not 0 < length <= RESPONSE_BYTES_MAX:
            raise NoAnswerError(f"response of {length} bytes")
        return _receive(connection, length)


def _receive(connection: socket.socket, length: int) -> bytes:
    received = bytearray()
    while len(received) < length:
        chunk = connection.recv(length - len(received))
        if not chunk:
            raise NoAnswerError("connection closed")
        received += chunk
    return bytes(received)


def _frame(api_key: int, version: int, body: bytes) -> bytes:
    header = struct.pack(">hhih", api_key, version, CORRELATION_ID, len(CLIENT_ID))
    frame = header + CLIENT_ID + NO_TAGS + body
    return struct.pack(">i", len(frame)) + frame


def _compact(text: bytes) -> bytes:
    assert len(text) < 0x7F, "one byte of varint is enough here"
    return bytes([len(text) + 1]) + text


def _response(frame: bytes) -> Reader:
    reader = Reader(frame)
    if reader.number("i") != CORRELATION_ID:
        raise NoAnswerError("response to another request")
    reader.tags()
    return reader


def _replicas(reader: Reader) -> dict[int, int]:
    ends: dict[int, int] = {}
    for _ in range(reader.count()):
        replica_id = reader.number("i")
        ends[replica_id] = reader.number("q")
        reader.number("q")  # last fetch
        reader.number("q")  # last caught up
        reader.tags()
    return ends
