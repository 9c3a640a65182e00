"""Brokers that register and send heartbeats but host nothing, to load a controller alone.

Each is a thread with one blocking connection to the active controller. Their metadata offset is
that of a `Tail`, an observer that follows the committed log by Fetch, as a broker does.
"""

import threading
import time
import uuid
from functools import partial
from typing import Any, Final

from typing_extensions import override

from benchmarks.clusters.protocol import wait_for_leader
from benchmarks.clusters.typed_client import (
    API_VERSIONS,
    DESCRIBE_CLUSTER,
    RefusedError,
    TypedClient,
    check,
    describe_cluster_request,
    request,
    wait_until,
)
from wire.errors import ErrorCode
from wire.messages.fetch_messages import FetchRequest, FetchResponse
from wire.types import LeaderEpoch, Offset

FETCH: Final = 1
REGISTER: Final = 62
HEARTBEAT: Final = 63
INTERVAL_S: Final = 2.0
"""broker.heartbeat.interval.ms"""
ACTIVE_AGAIN_S: Final = 0.02
SECOND_ASK_S: Final = 0.05
"""Pause after the first request to stop (apache/kafka: BrokerLifecycleManager)."""
_WRONG_EPOCH: Final = (74, 75)
"""FENCED and UNKNOWN_LEADER_EPOCH: the response has the epoch for the next request."""
_FETCH_BYTES: Final = 8 << 20


class Tail(threading.Thread):
    """Observer of the metadata log; keeps (arrival on the monotonic clock, bytes) of each read."""

    def __init__(self, address: str) -> None:
        super().__init__(daemon=True)
        self._client = TypedClient(address)
        self.offset = -1  # of the last record read
        self.arrivals: list[tuple[float, bytes]] = []
        self.error: Exception | None = None

    @override
    def run(self) -> None:
        """Fetch until the connection ends."""
        next_offset, epoch, leader_epoch = 0, 0, 0
        try:
            while True:
                fetch = FetchRequest(
                    max_wait_ms=500,
                    max_bytes=_FETCH_BYTES,
                    fetch_offset=Offset(next_offset),
                    last_fetched_epoch=LeaderEpoch(epoch),
                    current_leader_epoch=LeaderEpoch(leader_epoch),
                )
                fetched = self._client.ask(FETCH, fetch)
                assert isinstance(fetched, FetchResponse), f"{fetched=}"
                assert fetched.error_code in (0, *_WRONG_EPOCH), f"{fetched=}"
                leader_epoch = fetched.leader_epoch
                content = fetched.records
                if content:
                    self.arrivals.append((time.monotonic(), content))
                    next_offset, epoch = _end(content, next_offset, epoch)
                    self.offset = next_offset - 1
        except (OSError, AssertionError) as error:
            self.error = error

    def stop(self) -> None:
        """End the thread by closing its connection."""
        self._client.close()


def _end(content: bytes, next_offset: int, epoch: int) -> tuple[int, int]:
    """Position after the last whole batch, by headers only, not to load the measured process."""
    position = 0
    while position + 61 <= len(content):
        size = int.from_bytes(content[position + 8 : position + 12], "big") + 12
        if position + size > len(content):
            break
        base = int.from_bytes(content[position : position + 8], "big")
        epoch = int.from_bytes(content[position + 12 : position + 16], "big")
        last_delta = int.from_bytes(content[position + 23 : position + 27], "big")
        next_offset = base + last_delta + 1
        position += size
    return next_offset, epoch


class FakeBroker(threading.Thread):
    """One broker; registers and sends heartbeats once started."""

    def __init__(self, address: str, node_id: int, tail: Tail) -> None:
        super().__init__(daemon=True)
        self.node_id = node_id
        self.is_up = threading.Event()
        self.may_stop_at: float | None = None
        self.last_beat = 0.0
        self.error: Exception | None = None
        self._client = TypedClient(address)
        self._tail = tail
        self._wake = threading.Event()
        self._wants_stop = self._has_asked = self._is_gone = False
        self._epoch = -1

    @override
    def run(self) -> None:
        """Register, then send heartbeats until it vanishes, may stop or is refused."""
        try:
            self._live()
        except (OSError, RefusedError) as error:
            self.error = error
        self._client.close()

    def _live(self) -> None:
        self._epoch = self._register()
        while not self._is_gone:
            pause = self._beat()
            if pause is None:
                break
            self._wake.wait(pause)
            self._wake.clear()

    def _register(self) -> int:
        new = request(REGISTER)
        asked = request(API_VERSIONS).ApiVersionsRequest(
            client_software_name="measure", client_software_version="1"
        )
        supported = check(self._client.ask(API_VERSIONS, asked))
        cluster = check(self._client.ask(DESCRIBE_CLUSTER, describe_cluster_request(2)))
        body = new.BrokerRegistrationRequest(
            broker_id=self.node_id,
            cluster_id=cluster.cluster_id,
            incarnation_id=uuid.UUID(int=time.time_ns()),
            listeners=(
                new.Listener(
                    name="PLAINTEXT", host="127.0.0.1", port=self.node_id, security_protocol=0
                ),
            ),
            features=tuple(
                new.Feature(
                    name=feature.name,
                    min_supported_version=feature.min_version,
                    max_supported_version=feature.max_version,
                )
                for feature in supported.supported_features
            ),
            rack=None,
            log_dirs=(uuid.UUID(int=(1 << 64) + self.node_id),),
        )
        return int(check(self._client.ask(REGISTER, body)).broker_epoch)

    def _beat(self) -> float | None:
        """Send one heartbeat; returns the pause until the next, None if the broker may stop."""
        self.last_beat = time.monotonic()
        body = request(HEARTBEAT).BrokerHeartbeatRequest(
            broker_id=self.node_id,
            broker_epoch=self._epoch,
            current_metadata_offset=max(self._tail.offset, self._epoch),
            want_fence=False,
            want_shut_down=self._wants_stop,
        )
        answer: Any = self._client.ask(HEARTBEAT, body)
        if answer.error_code is ErrorCode.request_timed_out:
            return ACTIVE_AGAIN_S  # the controller is busy; a broker retries too
        check(answer)
        if self._wants_stop and answer.should_shut_down:
            self.may_stop_at = time.monotonic()
            return None
        if self._wants_stop and not self._has_asked:
            self._has_asked = True
            return SECOND_ASK_S
        if answer.is_fenced:
            return ACTIVE_AGAIN_S
        self.is_up.set()
        return INTERVAL_S

    def shut_down(self) -> None:
        """Request to stop, at once and with every later heartbeat."""
        self._wants_stop = True
        self._wake.set()

    def vanish(self) -> None:
        """Stop sending heartbeats, without a request to stop."""
        self._is_gone = True
        self._wake.set()


def start_brokers(
    controllers: list[str], count: int, first_id: int
) -> tuple[str, Tail, list[FakeBroker]]:
    """Start brokers; returns the active controller's address, a tail, and the unfenced brokers."""
    deadline = time.monotonic() + 60
    while True:
        address = wait_for_leader(controllers)
        client = TypedClient(address)
        try:
            check(client.ask(DESCRIBE_CLUSTER, describe_cluster_request(2)))
            break
        except (OSError, RefusedError):
            assert time.monotonic() < deadline, "no active controller in 60 s"
            time.sleep(0.1)
        finally:
            client.close()
    tail = Tail(address)
    tail.start()
    brokers = [FakeBroker(address, first_id + index, tail) for index in range(count)]
    for broker in brokers:
        broker.start()
    for broker in brokers:
        wait_until(broker.is_up.is_set, 60, partial(_not_up, broker, tail))
    return address, tail, brokers


def _not_up(broker: FakeBroker, tail: Tail) -> str:
    return f"broker {broker.node_id} unfenced: {broker.error}, tail {tail.error}"
