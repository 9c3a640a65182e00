"""The choice of the fault that meets a request."""

from collections.abc import Callable
from dataclasses import replace
from uuid import UUID

import pytest

from broker.clients.faults import Action, Fault, Faults, body_of
from wire import api_keys
from wire.api_keys import FETCH, METADATA, PRODUCE
from wire.connections.headers import RequestHeader
from wire.errors import ErrorCode, RemoteProtocolError
from wire.messages import codec
from wire.messages.conversion import default_entity

ID = UUID(int=5)


def header(api_key: int, client_id: str = "c") -> RequestHeader:
    return RequestHeader(api_key=api_key, api_version=9, correlation_id=1, client_id=client_id)


def unasked() -> object:
    raise AssertionError("the body does not matter")


def named(topic: str | UUID, partition: int) -> object:
    """A request that names a partition."""
    new = codec.newest(api_keys.OFFSET_DELETE, "request")
    row = new.OffsetDeleteRequestPartition(partition_index=partition)
    topics = (new.OffsetDeleteRequestTopic(name=topic, partitions=(row,)),)
    return new.OffsetDeleteRequest(group_id="g", topics=topics)


def of_replica(replica_id: int, version: int = 9) -> object:
    """A fetch; the id moved in version 15."""
    entity = codec.entity_class(FETCH, version, "request")
    request = default_entity(entity)
    if version < 15:
        return replace(request, replica_id=replica_id)
    return replace(request, replica_state=replace(request.replica_state, replica_id=replica_id))


def met(
    faults: Faults,
    api_key: int = PRODUCE,
    body: Callable[[], object] = unasked,
    client_id: str = "c",
) -> Fault | None:
    return faults.meet(header(api_key, client_id), body, {ID: "t"}.get)


def with_one(**said: object) -> tuple[Faults, Fault]:
    faults, fault = Faults(), Fault(action=Action.DROP, **said)  # type: ignore[arg-type]
    faults.add(fault)
    return faults, fault


def test_no_fault_meets_nothing() -> None:
    assert met(Faults()) is None
    assert not Faults()


def test_it_meets_the_requests_of_its_api_alone() -> None:
    faults, fault = with_one(api_key=PRODUCE)
    assert met(faults) is fault
    assert met(faults, METADATA) is None
    assert faults.hits(1) == 1


def test_without_an_api_it_meets_every_one() -> None:
    faults, fault = with_one()
    assert met(faults, METADATA) is fault


def test_it_meets_so_many_and_the_next_one_comes_into_its_place() -> None:
    faults, first = with_one(times=2)
    second = Fault(action=Action.DELAY, delay_ms=1)
    assert faults.add(second) == 2
    assert [met(faults) for _ in range(4)] == [first, first, second, second]
    assert (faults.hits(1), faults.hits(2), faults.hits(3)) == (2, 2, 0)
    assert len(faults) == 2


def test_its_end_says_what_it_met() -> None:
    faults, _ = with_one()
    met(faults)
    assert faults.end(1) == 1
    assert met(faults) is None
    assert (faults.end(1), faults.hits(1)) == (0, 0)


def test_all_end_together_and_numbers_are_not_given_again() -> None:
    faults, fault = with_one()
    assert faults.add(fault) == 2
    met(faults)
    faults.clear()
    assert met(faults) is None
    assert faults.hits(1) == 0
    assert [faults.add(fault) for _ in range(2)] == [3, 4]
    faults.end(3)
    assert [faults.add(fault) for _ in range(2)] == [5, 6]


def test_clients_that_are_spared() -> None:
    faults, fault = with_one(spared=("c",))
    assert met(faults) is None
    assert met(faults, client_id="d") is fault


@pytest.mark.parametrize(
    ("topic", "partition", "wanted", "is_met"),
    [
        ("t", 1, 1, True),
        ("t", 1, None, True),
        (ID, 1, 1, True),
        ("t", 1, 0, False),
        ("u", 1, 1, False),
        ("u", 1, None, False),
        (UUID(int=6), 1, 1, False),
    ],
)
def test_partitions(topic: str | UUID, partition: int, wanted: int | None, *, is_met: bool) -> None:
    faults, fault = with_one(topic="t", partition=wanted)
    found = met(faults, body=lambda: named(topic, partition))
    assert found is (fault if is_met else None)
    assert faults.hits(1) == is_met


@pytest.mark.parametrize("error", [RemoteProtocolError, LookupError])
def test_what_is_no_request_is_not_met(error: type[Exception]) -> None:
    def malformed() -> object:
        raise error

    faults, _ = with_one(topic="t")
    assert met(faults, body=malformed) is None


@pytest.mark.parametrize("api_key", [FETCH, api_keys.OFFSET_FOR_LEADER_EPOCH])
@pytest.mark.parametrize("version", [9, 18])
def test_replicas_are_not_met(api_key: int, version: int) -> None:
    faults, fault = with_one()
    assert met(faults, api_key, lambda: of_replica(0, version)) is None
    assert met(faults, api_key, lambda: of_replica(-1, version)) is fault


def test_the_body_is_that_of_its_own_version() -> None:
    body = codec.default_request(api_keys.HEARTBEAT)
    frame = bytearray(codec.encode_request(api_keys.HEARTBEAT, 0, 1, "c", body))
    position = len(frame) - len(codec.encode_request(api_keys.HEARTBEAT, 0, 1, None, body)) + 10
    sent = RequestHeader(api_key=api_keys.HEARTBEAT, api_version=0, correlation_id=1, client_id="c")
    assert type(body_of(sent, frame, position)).__module__.endswith("v0.request")
    with pytest.raises(RemoteProtocolError):
        body_of(sent, frame, len(frame))


def test_defaults() -> None:
    fault = Fault(action=Action.DROP)
    assert (fault.error, fault.delay_ms, fault.times) == (ErrorCode.none, 0, None)
