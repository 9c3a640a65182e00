"""Both clocks come with each call: the monotonic one for time-outs, the wall clock for dates."""

import inspect
from datetime import timedelta
from types import SimpleNamespace

from metadata.records import PartitionChangeRecord
from quorum_controller.config import ElectionIntervals, TokenSettings
from quorum_controller.handlers import HANDLERS
from quorum_controller.result import Draft, RequestContext
from tests.quorum_controller.controller_harness import Harness, manual, topic
from wire import api_keys

WALL_MS = 1_700_000_000_000
HOUR_MS = 3_600_000
TOKENS = TokenSettings(secret_key="secret", expiry_ms=1_000, sweep_interval_ms=HOUR_MS)
ALICE = RequestContext(principal="User:alice", is_forwarded=True)
NEW_TOKEN = SimpleNamespace(
    owner_principal_type="",
    owner_principal_name="",
    renewers=(),
    max_lifetime=timedelta(milliseconds=-1),
)


def provenance_ms(cluster):
    return cluster.image.provenance.timestamp_ms


def test_the_wall_clock_of_the_call_dates_its_batches():
    cluster = Harness(max_idle_interval_ms=500)
    assert provenance_ms(cluster) == 0
    cluster.start(1)
    cluster.wall_ms = WALL_MS
    cluster.create(topic("t"))
    assert provenance_ms(cluster) == WALL_MS
    cluster.wall_ms = WALL_MS - 7  # it may run backwards
    cluster.tick(501)
    assert provenance_ms(cluster) == WALL_MS - 7

    late = Harness(activate=False)
    late.wall_ms = WALL_MS + 9
    late.take(late.controller.activate(1, 1, late.image, late.now_ms, late.wall_ms))
    assert provenance_ms(late) == WALL_MS + 9


def test_slices_of_a_sweep_are_dated_by_the_tick_that_runs_them():
    cluster = Harness().start(1, 2)
    cluster.create(*[topic(f"t{index}", 1_000, 2) for index in range(3)])
    cluster.wall_ms = WALL_MS
    cluster.now_ms += 2
    cluster.submit(
        api_keys.UNREGISTER_BROKER, SimpleNamespace(broker_id=1), context=RequestContext()
    )
    assert provenance_ms(cluster) == WALL_MS
    cluster.wall_ms += 1
    assert cluster.controller.next_deadline_ms() == cluster.now_ms
    cluster.now_ms += 3
    assert cluster.tick().proposals
    assert provenance_ms(cluster) == WALL_MS + 1
    assert cluster.controller.next_deadline_ms() == cluster.now_ms


def test_tokens_are_dated_and_removed_by_the_wall_clock_when_the_monotonic_one_says_so():
    cluster = Harness(tokens=TOKENS, max_idle_interval_ms=0)
    cluster.wall_ms = WALL_MS
    assert cluster.controller.next_deadline_ms() is None
    answer = cluster.call(api_keys.CREATE_DELEGATION_TOKEN, NEW_TOKEN, context=ALICE)
    assert cluster.controller.next_deadline_ms() == cluster.now_ms + HOUR_MS
    assert round(answer.issue_timestamp.timestamp() * 1_000) == WALL_MS
    cluster.tick(HOUR_MS)
    assert cluster.image.delegation_tokens, "an hour has passed, but not by the wall clock"
    cluster.wall_ms += 1_001
    cluster.tick(HOUR_MS - 1)
    assert cluster.image.delegation_tokens, "it is looked for every hour"
    cluster.tick(1)
    assert not cluster.image.delegation_tokens
    assert provenance_ms(cluster) == WALL_MS + 1_001


def test_what_the_controller_does_by_itself_is_dated_by_its_tick():
    quiet = {"max_idle_interval_ms": 0, "session_timeout_ms": 9_000}
    cluster = Harness(**quiet).start(1)
    cluster.create(manual("t", (1,)))
    cluster.wall_ms = WALL_MS
    cluster.tick(9_001)
    assert cluster.image.brokers[1].fenced
    assert provenance_ms(cluster) == WALL_MS

    cluster = Harness(elections=ElectionIntervals(preferred_ms=500), **quiet).start(1, 2)
    cluster.create(manual("t", (1, 2)))
    cluster.heartbeat(1, fence=True)
    cluster.heartbeat(1)
    draft = Draft(cluster.image, cluster.controller.next_offset)
    topic_id = cluster.image.topic_id_by_name["t"]
    draft.emit(PartitionChangeRecord(partition_id=0, topic_id=topic_id, isr=(1, 2)))
    cluster.take_draft(draft)
    assert cluster.partition("t").leader == 2
    cluster.wall_ms = WALL_MS + 2
    cluster.tick(500)
    assert cluster.partition("t").leader == 1
    assert provenance_ms(cluster) == WALL_MS + 2


def test_every_handler_has_one_signature():
    for api_key, handler in HANDLERS.items():
        handle = [name.lstrip("_") for name in inspect.signature(handler.handle).parameters]
        refuse = [name.lstrip("_") for name in inspect.signature(handler.refuse).parameters]
        assert handle == ["draft", "request", "services"], f"{api_key=}"
        assert refuse == ["request", "error"], f"{api_key=}"
        assert "lambda" not in handler.handle.__name__ + handler.refuse.__name__, f"{api_key=}"
