"""Real logs and snapshots replayed: Kafka's snapshot is our image at that offset."""

import json

import pytest
from msgspec.structs import replace

from metadata import control_records, record_codec
from metadata.image import EMPTY
from metadata.invariants import violations
from metadata.loader import Loader, image_of
from metadata.snapshot import decode_snapshot, encode_snapshot, snapshot_records
from tests.metadata.golden_logs import GOLDEN, SCENARIOS, checkpoints, log_batches, log_bytes
from wire.batches.batch import encode_batch, encode_control_batch, iterate_batches
from wire.types import OffsetAndEpoch


@pytest.fixture(params=SCENARIOS)
def scenario(request):
    return request.param


def settled(image):
    """Image as a snapshot keeps it: endpoints and features have the order of Java's hash maps."""
    brokers = image.brokers
    for broker_id, broker in image.brokers.items():
        brokers = brokers.set(
            broker_id,
            replace(
                broker,
                registration_offset=broker.epoch,
                endpoints=tuple(sorted(broker.endpoints, key=lambda item: item.name)),
                features=tuple(sorted(broker.features, key=lambda item: item.name)),
            ),
        )
    controllers = image.controllers
    for controller_id, controller in image.controllers.items():
        controllers = controllers.set(
            controller_id,
            replace(
                controller,
                endpoints=tuple(sorted(controller.endpoints, key=lambda item: item.name)),
                features=tuple(sorted(controller.features, key=lambda item: item.name)),
            ),
        )
    return replace(image, provenance=EMPTY.provenance, brokers=brokers, controllers=controllers)


def test_batches_are_written_again_byte_for_byte(scenario):
    for batch in iterate_batches(log_bytes(scenario)):
        header = batch.header
        at = (header.base_offset, header.leader_epoch, header.max_timestamp_ms)
        if header.is_control:
            pairs = []
            for view in batch.records():
                number = control_records.control_type(view.key)
                pairs.append(
                    control_records.encode_control(
                        control_records.decode_control(number, view.value)
                    )
                )
            assert encode_control_batch(pairs, *at) == bytes(batch.buffer)
        else:
            values = [
                record_codec.encode(
                    record_codec.decode(view.value), record_codec.decoded_version(view.value)
                )
                for view in batch.records()
            ]
            assert encode_batch(values, *at) == bytes(batch.buffer)


def test_log_replays_to_a_sound_image(scenario):
    loader = Loader()
    for batch in log_batches(scenario):
        for image, _ in loader.commit([batch]):
            assert violations(image) == []
    assert loader.transaction_start is None
    assert loader.image.metadata_version >= 4


def test_one_commit_and_many_commits_agree(scenario):
    batches = log_batches(scenario)
    one, many = Loader(), Loader()
    one.commit(batches)
    for batch in batches:
        many.commit([batch])
    assert one.image == many.image


def test_kafkas_snapshots_are_the_images_at_their_offsets(scenario):
    for end_offset, epoch, content in checkpoints(scenario):
        if end_offset == 0:
            continue
        snapshot = decode_snapshot(content)
        loader = Loader()
        loader.commit(batch for batch in log_batches(scenario) if batch.end_offset <= end_offset)
        assert loader.image.provenance.snapshot_id == OffsetAndEpoch(end_offset, epoch)
        assert loader.image.provenance.timestamp_ms == snapshot.last_contained_timestamp_ms
        ours = settled(loader.image)
        theirs = settled(
            image_of(
                snapshot.records,
                OffsetAndEpoch(end_offset, epoch),
                snapshot.last_contained_timestamp_ms,
            )
        )
        for name in ours.__struct_fields__:
            if name != "zk_migration_state":  # Kafka 4.x forgets it, 3.9 always writes it
                assert getattr(ours, name) == getattr(theirs, name), (end_offset, name)


def test_kafkas_snapshots_are_written_again_byte_for_byte(scenario):
    for _, epoch, content in checkpoints(scenario):
        assert rewritten(content, epoch) == content


def test_bootstrap_checkpoints_are_written_again_byte_for_byte():
    found = sorted(GOLDEN.glob("*/bootstrap.checkpoint"))
    assert found
    for path in found:
        assert rewritten(path.read_bytes(), 0) == path.read_bytes()


def rewritten(content, epoch):
    snapshot = decode_snapshot(content)
    times = {batch.header.max_timestamp_ms for batch in iterate_batches(content)}
    versions = {
        (type(record), record_codec.decoded_version(view.value))
        for batch in iterate_batches(content)
        if not batch.header.is_control
        for view in batch.records()
        for record in [record_codec.decode(view.value)]
    }
    level = image_of(snapshot.records, OffsetAndEpoch(1, 0), 0).metadata_version
    assert versions or not snapshot.records
    batches = list(iterate_batches(content))
    parts = list(
        encode_snapshot(
            snapshot.records,
            level=level,
            epoch=epoch,
            last_contained_timestamp_ms=snapshot.last_contained_timestamp_ms,
            timestamp_ms=min(times),
            control_records=snapshot.control_records,
        )
    )
    if len(times) > 1:  # each batch has the time at which it was opened
        assert len(parts) == len(batches)
        parts = [
            restamped(part, batch.header.max_timestamp_ms)
            for part, batch in zip(parts, batches, strict=True)
        ]
    return b"".join(parts)


def restamped(part, timestamp_ms):
    (batch,) = iterate_batches(part)
    at = (batch.header.base_offset, batch.header.leader_epoch, timestamp_ms)
    if batch.header.is_control:
        pairs = [
            (control_records.control_type(view.key), bytes(view.value)) for view in batch.records()
        ]
        return encode_control_batch(pairs, *at)
    return encode_batch([bytes(view.value) for view in batch.records()], *at)


def test_snapshot_of_every_prefix_gives_the_image_back(scenario):
    loader = Loader()
    for batch in log_batches(scenario):
        for image, _ in loader.commit([batch]):
            again = image_of(
                snapshot_records(image), image.provenance.snapshot_id, image.provenance.timestamp_ms
            )
            assert settled(again) == settled(image)


def test_control_vectors():
    lines = (GOLDEN / "control-record-vectors.jsonl").read_text().splitlines()
    for vector in map(json.loads, lines):
        number = control_records.control_type(bytes.fromhex(vector["key_hex"]))
        value = bytes.fromhex(vector["value_hex"])
        record = control_records.decode_control(number, value)
        assert control_records.encode_control(record) == (number, value)


def test_control_json_is_that_of_the_dump_tool():
    value = bytes.fromhex("00000000000104000000010000000002000000000300030000000100000000020000")
    record = control_records.decode_control(control_records.LEADER_CHANGE, value)
    assert json.dumps(control_records.control_json(record), separators=(",", ":")) == (
        '{"version":0,"leaderId":1,"voters":[{"voterId":1},{"voterId":2},{"voterId":3}],'
        '"grantingVoters":[{"voterId":1},{"voterId":2}]}'
    )
    record = control_records.decode_control(
        control_records.KRAFT_VERSION, bytes.fromhex("0000000100")
    )
    assert control_records.control_json(record) == {"version": 0, "kRaftVersion": 1}
