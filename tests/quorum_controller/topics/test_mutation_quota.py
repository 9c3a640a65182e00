"""The controller mutation quota: a bucket in debt refuses, time pays, others are not touched."""

import pytest
from kio.schema.alter_client_quotas.v1.request import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)

from quorum_controller.config import MutationWindow
from quorum_controller.result import RECORDS_PER_BATCH_MAX, RequestContext
from quorum_controller.topics import mutation_quota
from quorum_controller.topics.mutation_quota import MutationQuotas
from tests.quorum_controller.controller_harness import Harness, topic
from wire.api_keys import ALTER_CLIENT_QUOTAS

THROTTLED, POLICY_VIOLATION = 89, 44
RATE = 2.0
FULL = int(RATE * 11)


def with_quota(*entity, **config):
    harness = Harness(**config).start(1)
    body = AlterClientQuotasRequest(
        entries=(
            EntryData(
                entity=tuple(EntityData(entity_type=k, entity_name=n) for k, n in entity),
                ops=(OpData(key="controller_mutation_rate", value=RATE, remove=False),),
            ),
        ),
        validate_only=False,
    )
    (row,) = harness.call(ALTER_CLIENT_QUOTAS, body).entries
    assert row.error_code == 0
    return harness


def codes(response):
    return [int(row.error_code) for row in response.topics]


def test_one_large_request_passes_and_the_next_waits_until_the_debt_is_paid():
    harness = with_quota(("user", None))
    assert codes(harness.create(topic("large", partitions=FULL + 4))) == [0]
    refused = harness.create(topic("next"))
    assert codes(refused) == [THROTTLED]
    assert refused.topics[0].error_message == "The throttling quota has been exceeded."
    assert refused.throttle_time.total_seconds() == 4 / RATE
    assert "next" not in harness.image.topic_id_by_name
    harness.now_ms += 2_000
    assert codes(harness.create(topic("next"))) == [0]


def test_the_windows_say_how_much_may_come_at_once():
    harness = with_quota(("user", None), mutations=MutationWindow(count=3, size_seconds=2))
    full = int(RATE * 3 * 2)
    assert codes(harness.create(topic("full", partitions=full))) == [0]
    assert codes(harness.create(topic("empty", partitions=1))) == [0]
    assert codes(harness.create(topic("next"))) == [THROTTLED]
    harness.now_ms += 1_000_000
    wanted = [topic("again", partitions=full), topic("last"), topic("refused")]
    assert codes(harness.create(*wanted)) == [0, 0, THROTTLED], "time fills no more than that"


def test_beyond_the_limit_the_oldest_bucket_is_dropped(monkeypatch):
    monkeypatch.setattr(mutation_quota, "BUCKETS_MAX", 2)
    harness = with_quota(("user", None), ("client-id", None))
    image, quotas = harness.image, MutationQuotas(11)

    def waits(client_id):
        return quotas.charge(image, "ANONYMOUS", client_id, FULL + 1, 5)

    assert [waits("a"), waits("b")] == [0, 0]
    assert waits("a") == waits("b") == 500
    assert waits("c") == 0
    assert waits("b") == 500, "only the oldest has gone"
    assert waits("a") == 0
    assert waits("c") == 500


def test_topics_of_one_request_are_charged_one_by_one():
    harness = with_quota(("user", "ANONYMOUS"))
    wanted = [topic("a", partitions=FULL + 1), topic("b")]
    assert codes(harness.create(*wanted)) == [0, THROTTLED]


def test_deletion_costs_its_partitions():
    harness = with_quota(("user", "ANONYMOUS"))
    harness.create(topic("large", partitions=FULL + 1))
    (row,) = harness.delete("large").responses
    assert row.error_code == THROTTLED
    assert "large" in harness.image.topic_id_by_name


def test_old_clients_are_never_refused():
    harness = with_quota(("user", None))
    old = RequestContext(api_version=5)
    harness.create(topic("large", partitions=FULL + 1), context=old)
    assert codes(harness.create(topic("next"), context=old)) == [0]


@pytest.mark.parametrize(
    ("entity", "is_refused"),
    [
        ([("user", "somebody")], False),
        ([("client-id", "app")], True),
        ([("client-id", "other")], False),
        ([("client-id", None)], True),
        ([("user", "ANONYMOUS"), ("client-id", "app")], True),
        ([("user", None), ("client-id", "other")], False),
    ],
)
def test_whom_a_quota_means(entity, is_refused):
    harness = with_quota(*entity)
    context = RequestContext(client_id="app")
    harness.create(topic("large", partitions=FULL + 1), context=context)
    assert codes(harness.create(topic("next"), context=context)) == [THROTTLED * is_refused]


def test_the_wait_of_a_request_that_fails_is_not_told_to_the_next():
    harness = with_quota(("client-id", "app"))
    app = RequestContext(client_id="app", api_version=5)
    assert codes(harness.create(topic("large", partitions=FULL + 4), context=app)) == [0]
    many = [topic(f"t{number}", partitions=RECORDS_PER_BATCH_MAX // 2) for number in range(2)]
    refused = harness.create(*many, context=app)
    assert set(codes(refused)) == {POLICY_VIOLATION}
    assert refused.throttle_time.total_seconds() == 0
    answer = harness.create(topic("other"), context=RequestContext(client_id="other"))
    assert codes(answer) == [0]
    assert answer.throttle_time.total_seconds() == 0


def test_a_wait_is_told_once():
    harness = with_quota(("client-id", "app"))
    app = RequestContext(client_id="app")
    harness.create(topic("large", partitions=FULL + 4), context=app)
    assert harness.create(topic("next"), context=app).throttle_time.total_seconds() == 2
    other = RequestContext(client_id="other")
    assert harness.create(topic("other"), context=other).throttle_time.total_seconds() == 0


def test_a_client_without_an_id_has_no_quota_of_clients():
    harness = with_quota(("client-id", None))
    nameless = RequestContext(client_id="")
    harness.create(topic("large", partitions=FULL + 1), context=nameless)
    assert codes(harness.create(topic("next"), context=nameless)) == [0]
