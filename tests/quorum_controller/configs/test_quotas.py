"""Client quotas: an entity is the same in whatever order its parts come."""

import pytest
from kio.schema.alter_client_quotas.v1.request import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)

from quorum_controller.topics.topics import RECORDS_EXCEEDED
from tests.quorum_controller.controller_harness import Harness
from wire.api_keys import ALTER_CLIENT_QUOTAS
from wire.errors import ErrorCode

USER, CLIENT = ("user", "u"), ("client-id", "c")
RATE = "producer_byte_rate"


def entry(parts, *operations):
    """One entity and what becomes of its keys: (key, value), None removes."""
    return EntryData(
        entity=tuple(EntityData(entity_type=kind, entity_name=name) for kind, name in parts),
        ops=tuple(OpData(key=key, value=value or 0.0, remove=value is None)
                  for key, value in operations),
    )  # fmt: skip


def alter(cluster, *entries):
    body = AlterClientQuotasRequest(entries=entries, validate_only=False)
    rows = cluster.call(ALTER_CLIENT_QUOTAS, body).entries
    return [(row.error_code, row.error_message) for row in rows]


@pytest.mark.parametrize("first", [(USER, CLIENT), (CLIENT, USER)])
@pytest.mark.parametrize("second", [(USER, CLIENT), (CLIENT, USER)])
def test_an_entity_that_comes_twice_is_refused_whole_in_any_order(first, second):
    cluster = Harness().start(1)
    rows = alter(
        cluster, entry(first, (RATE, 1.0)), entry(second, (RATE, 2.0)), entry([USER], (RATE, 3.0))
    )
    text = "Ignoring duplicate entity ClientQuotaEntity(entries={client-id=c, user=u})"
    assert rows == [(ErrorCode.invalid_request, text), (ErrorCode.none, None)]
    found = {key: dict(values.items()) for key, values in cluster.image.client_quotas.items()}
    assert found == {(USER,): {RATE: 3.0}}


@pytest.mark.parametrize("parts", [(USER, CLIENT), (CLIENT, USER)])
def test_a_change_finds_the_entity_that_was_set_in_another_order(parts):
    cluster, other = Harness().start(1), parts[::-1]
    assert alter(cluster, entry(parts, (RATE, 1.0))) == [(ErrorCode.none, None)]
    end = cluster.controller.next_offset
    assert alter(cluster, entry(other, (RATE, 1.0))) == [(ErrorCode.none, None)]
    assert cluster.controller.next_offset == end, "it has that value"
    assert alter(cluster, entry(other, (RATE, None))) == [(ErrorCode.none, None)]
    assert not cluster.image.client_quotas


LABEL = "a" * 63


@pytest.mark.parametrize(
    ("address", "code"),
    [
        ("host-1.example_2.", ErrorCode.none),
        (LABEL + "." + LABEL, ErrorCode.none),
        ("a" + LABEL, ErrorCode.invalid_request),
        ("b." + "a" + LABEL, ErrorCode.invalid_request),
        (".".join([LABEL] * 4), ErrorCode.invalid_request),  # 255 characters
        ("a..b", ErrorCode.invalid_request),
        ("-a", ErrorCode.invalid_request),
        ("1.2.3", ErrorCode.invalid_request),
        ("a" * 40 + "!", ErrorCode.invalid_request),  # took years
    ],
)
def test_the_name_of_a_host_has_labels_of_63_characters(address, code):
    cluster = Harness().start(1)
    ((error, _),) = alter(cluster, entry([("ip", address)], ("connection_creation_rate", 1.0)))
    assert error == code


@pytest.mark.parametrize(
    ("rate", "code"),
    [
        (2.0**31 - 1, ErrorCode.none),
        (2.0**31, ErrorCode.invalid_request),
        (2.0**31 + 1, ErrorCode.invalid_request),
    ],
)
def test_a_connection_rate_is_an_int32(rate, code):
    cluster = Harness().start(1)
    ((error, _),) = alter(cluster, entry([("ip", "10.0.0.1")], ("connection_creation_rate", rate)))
    assert error == code


@pytest.mark.parametrize(
    ("rate", "code"),
    [
        (3.0000005, ErrorCode.none),
        (1e-6, ErrorCode.none),
        (1.1e-6, ErrorCode.invalid_request),
        (0.999999, ErrorCode.invalid_request),
    ],
)
def test_a_byte_rate_is_whole_but_for_a_millionth(rate, code):
    """apache/kafka: ClientQuotaControlManager, a remainder above 1e-6 is refused."""
    ((error, _),) = alter(Harness().start(1), entry([USER], (RATE, rate)))
    assert error == code


@pytest.mark.parametrize(("count", "code"), [(2, ErrorCode.none), (3, RECORDS_EXCEEDED.code)])
def test_a_request_makes_at_most_the_records_of_a_batch(monkeypatch, count, code):
    monkeypatch.setattr("quorum_controller.configs.quotas.RECORDS_PER_BATCH_MAX", 2)
    cluster = Harness().start(1)
    rows = alter(cluster, *(entry([("user", f"u{n}")], (RATE, 1.0)) for n in range(count)))
    assert [error for error, _ in rows] == [code] * count
    assert len(cluster.image.client_quotas) == (count if code is ErrorCode.none else 0)
