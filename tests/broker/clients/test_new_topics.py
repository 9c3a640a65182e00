"""Metadata that names topics which are being made."""

from datetime import timedelta
from functools import partial
from typing import Any, Final

import pytest

from broker.clients.faults import Action, Fault, Faults
from broker.clients.faulty_front import FaultyFront
from broker.clients.new_topics import PAUSES_MS
from broker.effects import CloseConnection, SendToKernel
from simulator.cluster.memory_vfs import MemoryVfs
from tests.broker.fronts import Fronts, api_versions, file_slice, is_open, list_offsets
from wire.api_keys import METADATA, PRODUCE
from wire.connections.framing import frame
from wire.errors import ErrorCode
from wire.messages import codec

UNKNOWN: Final = ErrorCode.unknown_topic_or_partition
VERSION: Final = 12


def metadata(*, may_create: bool = True, version: int = VERSION) -> bytearray:
    new = codec.newest(METADATA, "request")
    body = new.MetadataRequest(
        topics=(new.MetadataRequestTopic(name="t", topic_id=None),),
        allow_auto_topic_creation=may_create,
        include_topic_authorized_operations=False,
    )
    return bytearray(codec.encode_request(METADATA, version, 5, "client", body))


def response(*errors: ErrorCode, version: int = VERSION) -> bytes:
    new: Any = codec.newest(METADATA, "response")
    topics = tuple(
        new.MetadataResponseTopic(
            error_code=error, name="t", topic_id=None, is_internal=False, partitions=()
        )
        for error in errors
    )
    body = new.MetadataResponse(
        throttle_time=timedelta(0),
        brokers=(), cluster_id=None, controller_id=1, topics=topics, error_code=ErrorCode.none,
    )  # fmt: skip
    return codec.encode_response(METADATA, version, 5, body)


class Patient(Fronts):
    """A front of a test's node, with one connection that has asked for metadata."""

    def __init__(self, *frames: bytearray) -> None:
        self.faults = Faults()
        super().__init__(kind=partial(FaultyFront, self.faults, lambda _: None))
        self.open()
        self.receive(*frames)
        self.now_asked()

    def now_asked(self) -> list[bytes]:
        """Metadata requests that went to the kernel since the last look."""
        found = [effect.data for effect in self.of(SendToKernel)]
        self.effects[:] = [e for e in self.effects if not isinstance(e, SendToKernel)]
        return found

    def wait(self, milliseconds: int) -> None:
        self.clock.now_ms += milliseconds
        due_ms = self.front.next_ms()
        if due_ms is not None and due_ms <= self.clock.now_ms:
            self.front.tick()


@pytest.mark.parametrize("version", [1, VERSION])
def test_a_topic_that_is_made_meanwhile_is_answered(version: int) -> None:
    asked = metadata(version=version)
    fronts = Patient(asked)
    fronts.kernel_answers(response(UNKNOWN, version=version))
    fronts.wait(PAUSES_MS[0] - 1)
    assert fronts.now_asked() == []
    fronts.wait(1)
    assert fronts.now_asked() == [frame(bytes(asked))]
    assert fronts.sent() == b""
    made = response(ErrorCode.none, version=version)
    fronts.kernel_answers(made)
    assert fronts.sent() == frame(made)
    fronts.wait(1_000)
    assert fronts.now_asked() == []


def test_a_topic_that_is_not_made_is_unknown_before_a_client_would_ask_again() -> None:
    fronts = Patient(metadata())
    began_ms = fronts.clock.now_ms
    for pause_ms in PAUSES_MS:
        fronts.kernel_answers(response(ErrorCode.none, UNKNOWN))
        assert fronts.sent() == b""
        fronts.wait(pause_ms)
        assert len(fronts.now_asked()) == 1
    fronts.kernel_answers(response(ErrorCode.none, UNKNOWN))
    assert fronts.sent() == frame(response(ErrorCode.none, UNKNOWN))
    assert fronts.clock.now_ms - began_ms < 100


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        (metadata(may_create=False), response(UNKNOWN)),
        (metadata(), response(ErrorCode.invalid_topic_exception)),
        (metadata(), response()),
        (metadata(), b"nonsense"),
    ],
)
def test_what_is_not_being_made_is_answered_at_once(asked: bytearray, answer: bytes) -> None:
    fronts = Patient(asked)
    fronts.kernel_answers(answer)
    assert fronts.sent() == frame(answer)


def test_later_answers_wait_in_their_order() -> None:
    fronts = Patient(metadata(), list_offsets(1), metadata())
    fronts.answer(fronts.calls[0], b"second")
    fronts.kernel_answers(response(UNKNOWN), b"third")
    assert fronts.sent() == b""
    fronts.wait(PAUSES_MS[0])
    assert len(fronts.now_asked()) == 1
    fronts.kernel_answers(response(ErrorCode.none))
    second = frame(b"\0\0\0\1\0second")
    assert fronts.sent() == frame(response(ErrorCode.none)) + second + frame(b"third")


@pytest.mark.parametrize("is_asked_again", [False, True])
def test_a_connection_that_the_kernel_closes_ends(*, is_asked_again: bool) -> None:
    fronts = Patient(metadata())
    fronts.kernel_answers(response(UNKNOWN))
    fronts.receive(api_versions())
    if is_asked_again:
        fronts.wait(PAUSES_MS[0])
    assert len(fronts.now_asked()) == 1 + is_asked_again
    fronts.front.kernel_closed(1, "refused")
    assert fronts.sent() == frame(response(UNKNOWN))
    assert len(fronts.of(CloseConnection)) == 1
    fronts.wait(1_000)
    assert fronts.now_asked() == []


def test_a_client_that_goes_is_not_asked_for() -> None:
    fronts = Patient(metadata())
    fronts.kernel_answers(response(UNKNOWN))
    fronts.open(2)
    fronts.receive(metadata(), connection_id=2)
    fronts.now_asked()
    fronts.front.closed(1)
    fronts.wait(PAUSES_MS[0])
    assert fronts.now_asked() == []
    fronts.kernel_answers(response(UNKNOWN), connection_id=2)
    fronts.wait(PAUSES_MS[0])
    assert len(fronts.now_asked()) == 1
    assert fronts.front._answers._held.keys() == {(2, 0)}


def test_what_waits_behind_it_is_closed_with_its_client() -> None:
    fronts = Patient(metadata(), list_offsets(1))
    part = file_slice(MemoryVfs())
    fronts.answer(fronts.calls[0], part)
    fronts.kernel_answers(response(UNKNOWN))
    fronts.front.closed(1)
    assert not is_open(part)


def test_other_requests_are_not_looked_at() -> None:
    fronts = Patient()
    fronts.faults.add(Fault(action=Action.DROP, api_key=PRODUCE))
    fronts.receive(api_versions(1))
    answer = response(UNKNOWN, version=4)
    fronts.kernel_answers(answer)
    assert fronts.sent() == frame(answer)
