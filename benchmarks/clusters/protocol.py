"""Minimal client for measurements: hand-made frames over a blocking socket.

It has CreateTopics 7 and DescribeQuorum 0; every KRaft quorum answers them, so the
same script measures kraftline and Kafka by address.
"""

import itertools
import socket
import struct
import time
from collections.abc import Iterable

CREATE_TOPICS = 19
API_VERSIONS = 18
DESCRIBE_QUORUM = 55
NOT_CONTROLLER = 41


class ProtocolError(Exception):
    """An answer with an error code, or no answer."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{text} (error code {code})")
        self.code = code


def _compact(text: str) -> bytes:
    raw = text.encode()
    return _varint(len(raw) + 1) + raw


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _read_varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7


def create_topics_frame(names: Iterable[str], *, partitions: int = 1, replicas: int = 1) -> bytes:
    """CreateTopics 7 body for topics of the same shape."""
    topics = [
        _compact(name) + struct.pack(">ih", partitions, replicas) + b"\x01\x01\x00"
        for name in names
    ]
    return _varint(len(topics) + 1) + b"".join(topics) + struct.pack(">ib", 30_000, 0) + b"\x00"


def check_created(answer: bytes) -> None:
    """Raise ProtocolError when the first topic of a CreateTopics 7 answer was refused."""
    _, position = _read_varint(answer, 4)  # throttle time, topic count
    length, position = _read_varint(answer, position)
    position += length - 1 + 16
    (code,) = struct.unpack_from(">h", answer, position)
    if code:
        length, position = _read_varint(answer, position + 2)
        text = answer[position : position + length - 1].decode() if length else ""
        raise ProtocolError(code, text)


class Connection:
    """One blocking connection, one request at a time."""

    def __init__(self, address: str, timeout_s: float = 30.0) -> None:
        host, port = address.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), timeout=timeout_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._ids = itertools.count()

    def frame(self, api_key: int, version: int, body: bytes, *, flexible: bool = True) -> bytes:
        """Build a whole request frame with the next correlation id."""
        client = b"measure"
        header = struct.pack(">hhih", api_key, version, next(self._ids), len(client)) + client
        payload = header + (b"\x00" if flexible else b"") + body
        return struct.pack(">i", len(payload)) + payload

    def call(self, api_key: int, version: int, body: bytes, *, flexible: bool = True) -> bytes:
        """Send a request and wait; returns the answer's body."""
        self.socket.sendall(self.frame(api_key, version, body, flexible=flexible))
        return self.receive(flexible=flexible)

    def receive(self, *, flexible: bool = True) -> bytes:
        """Receive the body of the next answer."""
        return self.receive_frame()[5 if flexible else 4 :]

    def receive_frame(self) -> bytes:
        """Receive the next answer with its header."""
        (size,) = struct.unpack(">i", self._exactly(4))
        return self._exactly(size)

    def _exactly(self, count: int) -> bytes:
        chunks = bytearray()
        while len(chunks) < count:
            chunk = self.socket.recv(count - len(chunks))
            if not chunk:
                raise ConnectionError("the server closed the connection")
            chunks += chunk
        return bytes(chunks)

    def close(self) -> None:
        """Close the socket."""
        self.socket.close()


def leader_of(address: str, timeout_s: float = 2.0) -> tuple[int, int, int]:
    """Leader id, epoch and high watermark from one controller or broker."""
    connection = Connection(address, timeout_s)
    try:
        body = b"\x02" + _compact("__cluster_metadata") + b"\x02" + bytes(4) + b"\x00\x00\x00"
        answer = connection.call(DESCRIBE_QUORUM, 0, body)
    finally:
        connection.close()
    (code,) = struct.unpack_from(">h", answer)
    if code:
        raise ProtocolError(code, "DescribeQuorum")
    _, position = _read_varint(answer, 2)
    length, position = _read_varint(answer, position)
    _, position = _read_varint(answer, position + length - 1)
    _, code, leader_id, epoch, high_watermark = struct.unpack_from(">ihiiq", answer, position)
    if code:
        raise ProtocolError(code, "DescribeQuorum")
    return leader_id, epoch, high_watermark


def find_leader(controllers: list[str]) -> str:
    """Address of the active controller: only the leader answers DescribeQuorum itself."""
    error: Exception = ProtocolError(-1, "no controller was named")
    for address in controllers:
        try:
            leader_of(address)
        except (OSError, ProtocolError) as refused:
            error = refused
        else:
            return address
    raise error


def wait_for_leader(controllers: list[str], seconds: float = 30.0) -> str:
    """Poll until some controller leads; returns its address."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return find_leader(controllers)
        except (OSError, ProtocolError):
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def wait_until_writable(controllers: list[str], seconds: float = 60.0) -> str:
    """Poll until a topic can be created: brokers are registered and a leader is elected."""
    deadline = time.monotonic() + seconds
    for number in itertools.count():
        try:
            address = find_leader(controllers)
            connection = Connection(address)
            body = create_topics_frame([f"probe-{number}-{time.monotonic_ns()}"])
            check_created(connection.call(CREATE_TOPICS, 7, body))
            connection.close()
        except (OSError, ProtocolError):
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
        else:
            return address
    raise AssertionError("unreachable: the loop ends by return or raise")
