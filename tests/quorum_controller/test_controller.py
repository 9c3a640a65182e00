import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.schema.alter_user_scram_credentials.v0.request import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from kio.schema.controller_registration.v0.request import ControllerRegistrationRequest
from kio.schema.create_topics.v7.request import CreateTopicsRequest
from msgspec.structs import replace

from metadata.apply import apply_all
from metadata.delta import MetadataDelta
from metadata.features import record_version
from metadata.image import EMPTY, Provenance
from metadata.record_codec import decode, encode
from metadata.records import FeatureLevelRecord
from quorum_controller.activation import ActivationError, write_activation_records
from quorum_controller.result import Draft
from tests.quorum_controller.controller_harness import EPOCH, SECOND, Harness, manual, names, topic
from tests.selection import examples
from wire import api_keys
from wire.errors import ErrorCode


def creation(*topics, timeout=SECOND, validate_only=False):
    return CreateTopicsRequest(topics=topics, timeout=timeout, validate_only=validate_only)


def test_a_standby_refuses_and_names_the_leader():
    standby = Harness(activate=False)
    token = standby.submit(api_keys.CREATE_TOPICS, creation(topic("t")))
    (row,) = standby.answers[token].topics
    assert row.error_code == ErrorCode.not_controller
    assert row.error_message == "No controller appears to be active."
    standby.controller.known_leader_id = 2
    token = standby.submit(api_keys.CREATE_TOPICS, creation(topic("t")))
    assert standby.answers[token].topics[0].error_message == (
        "The active controller appears to be node 2."
    )
    assert standby.heartbeat(1, 0).error_code == ErrorCode.not_controller
    assert standby.register(1).error_code == ErrorCode.not_controller
    assert standby.controller.next_deadline_ms() is None


def test_more_records_than_a_batch_holds_are_refused_whoever_makes_them(monkeypatch):
    """The handler of SCRAM credentials counts nothing itself."""
    cluster = Harness()
    upsertions = tuple(
        ScramCredentialUpsertion(
            name=name, mechanism=1, iterations=4096, salt=b"s", salted_password=b"p"
        )
        for name in ("a", "b")
    )
    body = AlterUserScramCredentialsRequest(deletions=(), upsertions=upsertions)
    end = cluster.controller.next_offset
    with monkeypatch.context() as patch:
        patch.setattr("quorum_controller.controller.RECORDS_PER_BATCH_MAX", 1)
        rows = cluster.call(api_keys.ALTER_USER_SCRAM_CREDENTIALS, body).results
    assert [row.error_code for row in rows] == [ErrorCode.policy_violation] * 2
    assert cluster.controller.next_offset == end
    rows = cluster.call(api_keys.ALTER_USER_SCRAM_CREDENTIALS, body).results
    assert [row.error_code for row in rows] == [ErrorCode.none] * 2


def test_an_answer_waits_for_the_commit_and_so_does_a_refusal_based_on_it():
    cluster = Harness().start(1)
    first = cluster.submit(api_keys.CREATE_TOPICS, creation(topic("t")))
    second = cluster.submit(api_keys.CREATE_TOPICS, creation(topic("t")))
    assert first not in cluster.answers
    assert second not in cluster.answers
    cluster.commit()
    assert cluster.answers[first].topics[0].error_code == ErrorCode.none
    assert cluster.answers[second].topics[0].error_code == ErrorCode.topic_already_exists


def test_commit_completes_whole_batches_in_order():
    cluster = Harness().start(1)
    offset = cluster.controller.next_offset
    first = cluster.submit(api_keys.CREATE_TOPICS, creation(topic("a")))
    second = cluster.submit(api_keys.CREATE_TOPICS, creation(topic("b")))
    cluster.commit(offset + 1)
    assert not {first, second} & set(cluster.answers)
    cluster.commit(offset + 2)
    assert first in cluster.answers
    assert second not in cluster.answers
    assert "b" not in cluster.controller.committed.topic_id_by_name
    assert "b" in cluster.controller.latest.topic_id_by_name


def test_losing_the_leadership_forgets_what_was_not_committed():
    cluster = Harness().start(1)
    before = cluster.image
    token = cluster.submit(api_keys.CREATE_TOPICS, creation(topic("lost")))
    cluster.controller.known_leader_id = 3
    cluster.take(cluster.controller.resign())
    assert cluster.answers[token].topics[0].error_code == ErrorCode.not_controller
    assert cluster.image is before
    assert not cluster.controller.is_active
    assert cluster.controller.next_deadline_ms() is None


def test_after_a_fail_over_every_broker_gets_a_full_session():
    cluster = Harness().start(1)
    cluster.controller.resign()
    cluster.now_ms += 60_000
    cluster.take(
        cluster.controller.activate(EPOCH + 1, len(cluster.log), cluster.image, cluster.now_ms, 0)
    )
    cluster.tick(9_000)
    assert not cluster.image.brokers[1].fenced
    cluster.tick(1)
    assert cluster.image.brokers[1].fenced


@pytest.mark.parametrize(
    ("level", "expected"),
    [(21, ["BeginTransaction", "FeatureLevel", "EndTransaction"]), (12, ["FeatureLevel"])],
)
def test_an_empty_log_gets_the_bootstrap_records_in_one_batch(level, expected):
    cluster = Harness(level)
    (batch,) = cluster.batches
    assert names(batch.records) == expected
    assert (batch.epoch, batch.base_offset) == (EPOCH, 1)
    assert cluster.image.metadata_version == level


@pytest.mark.parametrize(
    ("records", "message"),
    [
        ((), "no FeatureLevelRecord for metadata.version"),
        ((FeatureLevelRecord(name="metadata.version", feature_level=3),), "before 3.3-IV0"),
    ],
)
def test_a_log_is_not_begun_with_records_that_set_no_level_known_here(records, message):
    draft = Draft(EMPTY, 0)
    with pytest.raises(ActivationError, match=message):
        write_activation_records(draft, records, has_open_transaction=False)


def test_a_half_written_bootstrap_is_aborted_and_redone():
    cluster = Harness(activate=False)
    output = cluster.controller.activate(EPOCH, 3, EMPTY, 0, 0, has_open_transaction=True)
    assert names(output.proposals[0].records) == [
        "AbortTransaction",
        "BeginTransaction",
        "FeatureLevel",
        "EndTransaction",
    ]


def test_an_open_transaction_is_aborted_exactly_once_and_fatal_below_level_13():
    image = apply_all(
        EMPTY, [FeatureLevelRecord(name="metadata.version", feature_level=21)], 1, MetadataDelta()
    )
    cluster = Harness(activate=False)
    output = cluster.controller.activate(EPOCH, 5, image, 0, 0, has_open_transaction=True)
    assert names(output.proposals[0].records) == ["AbortTransaction"]
    old = apply_all(
        EMPTY, [FeatureLevelRecord(name="metadata.version", feature_level=12)], 1, MetadataDelta()
    )
    with pytest.raises(ActivationError):
        Harness(activate=False).controller.activate(EPOCH, 5, old, 0, 0, has_open_transaction=True)
    quiet = Harness(activate=False).controller.activate(EPOCH, 5, image, 0, 0)
    assert quiet.proposals == []


@pytest.mark.parametrize(("level", "expected"), [(21, 3), (5, 3), (4, 0)])
def test_a_noop_is_written_every_idle_interval(level, expected):
    cluster = Harness(level)
    before = len(cluster.log)
    for _ in range(15):
        cluster.tick(100)
    assert names(cluster.log[before:]) == ["NoOp"] * expected
    cluster.controller.resign()
    assert cluster.tick(5_000).proposals == []


def test_requests_time_out_at_the_door_and_while_they_wait():
    cluster = Harness().start(1)
    cluster.create(topic("in-time"))
    before = cluster.controller.next_offset
    token = cluster.submit(api_keys.CREATE_TOPICS, creation(topic("t"), timeout=SECOND * 0))
    assert cluster.answers[token].topics[0].error_code == ErrorCode.request_timed_out
    assert cluster.controller.next_offset == before
    token = cluster.submit(api_keys.CREATE_TOPICS, creation(topic("t"), timeout=SECOND))
    cluster.tick(29_999)
    assert token not in cluster.answers
    cluster.tick(1)
    assert cluster.answers[token].topics[0].error_code == ErrorCode.request_timed_out
    cluster.commit()
    assert "t" in cluster.image.topic_id_by_name
    assert cluster.controller.requests_timed_out == 2
    assert cluster.controller.heartbeats_timed_out == 0


def test_heartbeats_that_time_out_are_counted_for_the_life_of_the_node():
    cluster = Harness(pending_requests_max=1).start(1)
    cluster.submit(api_keys.CREATE_TOPICS, creation(topic("t")))
    token = cluster.submit(api_keys.BROKER_HEARTBEAT, cluster.heartbeat_of(1, 0))
    assert cluster.answers[token].error_code == ErrorCode.request_timed_out
    cluster.take(cluster.controller.resign())
    counted = cluster.controller.requests_timed_out, cluster.controller.heartbeats_timed_out
    assert counted == (1, 1)


def test_the_age_of_the_last_heartbeat_is_at_most_a_session():
    cluster = Harness().start(1, 2)
    cluster.tick(400)
    cluster.heartbeat(1)
    cluster.tick(50)
    assert cluster.controller.heartbeat_ages_ms(cluster.now_ms) == {1: 50, 2: 450}
    assert cluster.controller.heartbeat_ages_ms(cluster.now_ms + 8_950) == {1: 9_000, 2: 9_000}
    cluster.controller.resign()
    assert cluster.controller.heartbeat_ages_ms(cluster.now_ms) == {}


def test_the_queue_of_waiting_requests_is_bounded():
    cluster = Harness(pending_requests_max=2).start(1)
    assert accepted(cluster, "t0", "t1", "t2") == ["t0", "t1"]
    cluster.commit()
    assert sorted(cluster.image.topic_id_by_name) == ["t0", "t1"]
    assert accepted(cluster, "t3", "t4", "t5") == ["t3", "t4"]


def test_a_new_leadership_begins_with_no_request_in_the_queue():
    cluster = Harness(pending_requests_max=2).start(1)
    end_offset = cluster.controller.next_offset
    assert accepted(cluster, "t0", "t1", "t2") == ["t0", "t1"]
    cluster.take(cluster.controller.resign())
    cluster.controller.activate(EPOCH + 1, end_offset, cluster.image, cluster.now_ms, 0)
    assert accepted(cluster, "t3", "t4", "t5") == ["t3", "t4"]


def accepted(cluster, *names):
    """Submit creations of topics; return the names of those that wait, the others timed out."""
    waiting = []
    for name in names:
        token = cluster.submit(api_keys.CREATE_TOPICS, creation(topic(name)))
        if token not in cluster.answers:
            waiting.append(name)
            continue
        (row,) = cluster.answers[token].topics
        assert row.error_code == ErrorCode.request_timed_out
    return waiting


def test_controllers_register_from_level_15_on():
    request = ControllerRegistrationRequest(
        controller_id=2, incarnation_id=None, zk_migration_ready=False, listeners=(), features=()
    )
    cluster = Harness()
    response = cluster.call(api_keys.CONTROLLER_REGISTRATION, request)
    assert (response.error_code, response.error_message) == (ErrorCode.none, "")
    assert list(cluster.image.controllers) == [2]
    old = Harness(14).call(api_keys.CONTROLLER_REGISTRATION, request)
    assert old.error_code == ErrorCode.unsupported_version
    assert old.error_message == (
        "The current MetadataVersion is too old to support controller registrations."
    )


steps = st.lists(
    st.tuples(
        st.sampled_from(["create", "delete", "fence", "unfence", "stop", "wait"]),
        st.integers(1, 3),
        st.integers(1, 4),
    ),
    max_size=25,
)


@settings(max_examples=examples(60), deadline=None)
@given(steps=steps)
def test_the_image_of_the_drafts_is_the_image_of_the_records(steps):
    cluster = Harness().start(1, 2, 3)
    for number, (step, broker_id, size) in enumerate(steps):
        match step:
            case "create":
                cluster.create(topic(f"t{number}", size, min(size, 3)), manual(f"m{number}", (1,)))
            case "delete":
                existing = sorted(cluster.image.topic_id_by_name)
                cluster.delete(*existing[:1])
            case "wait":
                cluster.tick(size * 2_500)
                cluster.commit()
            case _:
                cluster.heartbeat(broker_id, fence=step == "fence", stop=step == "stop")
        for topic_ in cluster.image.topics.values():
            for partition in topic_.partitions.values():
                assert set(partition.isr) <= set(partition.replicas)
                assert partition.isr
                assert partition.leader == -1 or partition.leader in partition.isr
    replayed = EMPTY
    for offset, record in enumerate(cluster.log):
        if record is not None:
            stored = decode(encode(record, record_version(record, cluster.level)))
            assert stored == record
            replayed = apply_all(replayed, [stored], offset, MetadataDelta())
    provenance = Provenance(cluster.controller.next_offset, EPOCH, 0)
    assert replace(replayed, provenance=provenance) == cluster.image
    assert cluster.image is cluster.controller.committed
    assert [pending.end_offset for pending in cluster.committed] == [
        batch.base_offset + len(batch.records) for batch in cluster.batches
    ]
