"""Configs, quotas, SCRAM credentials, features and producer ids as recorded from real Kafka.

Each request meets the image of Kafka's own log at the moment it was asked (recorded_time.py). Our
response is Kafka's byte for byte, and the records we write are the next batch of Kafka's log, but
for the differences listed here.
"""

import pytest

from metadata.records import NoOpRecord
from tests.quorum_controller.recorded import answer, batches_from, request_of, samples
from tests.quorum_controller.recorded_time import end_offset_at
from wire.messages import codec

SAMPLES = samples("settings_answers.jsonl")
PLACES = {
    ("static-3.9.1", 12428): (95, "the broker had not read the last record, written 36 ms before"),
    ("static-4.3.1", 22627): (180, "its batch was begun 13 ms before, by a no-op record"),
}
"""Samples whose place is not that of their time, with the end of the log and the reason."""
IN_ONE_BATCH = {
    ("static-3.9.1", 36366): slice(3),
    ("static-4.3.1", 28107): slice(3, 6),
    ("static-4.3.1", 28114): slice(6, 9),
}
"""Records of requests that Kafka appended together with others in one batch."""

OTHER_RELEASE = {
    ("static-3.9.1", 7572): "3.9.1 lists configs of topics that 4.3.1 has not, and lacks none",
    ("static-3.9.1", 8382): "likewise",
    ("static-3.9.1", 30195): "likewise",
    ("static-3.9.1", 10329): "3.9.1 says an empty text, 4.3.1 and we say null",
    ("static-3.9.1", 10407): "likewise",
    ("static-3.9.1", 10572): "3.9.1 tells the reason per feature at version 1, 4.3.1 at the top",
}
"""Samples that 4.3.1 answers in another way than 3.9.1 did, by scenario and time."""

UNORDERED = {"LIST_CONFIG_RESOURCES": "Kafka's order is that of a hash set; ours is by name"}
"""Responses whose rows are compared in sorted order, by API, with the reason.

Records of one request are compared without their order too: Kafka's is that of a hash map.
"""

DIFFERENT_CONFIGS = {
    "message.timestamp.after.max.ms": "3.9.1: no limit; 4.3.1 and we: an hour",
}
"""Configs of topics whose default changed after 3.9.1."""


READS = ("DESCRIBE_", "LIST_")
NO_RECORDS = {
    ("static-3.9.1", 36413): "the configs were deleted by the request before",
}
"""Changes that change nothing."""


def name(sample):
    return f"{sample['scenario']}-{sample['ms']}-{sample['api']}-v{sample['api_version']}"


def key(sample):
    return sample["scenario"], sample["ms"]


def decoded(sample, frame):
    return codec.decode_response(sample["api_key"], sample["api_version"], frame)[1]


def place(sample):
    """The end of the log when a sample was asked (exclusive)."""
    listed = PLACES.get(key(sample))
    return listed[0] if listed else end_offset_at(sample)


EXACT = [s for s in SAMPLES if key(s) not in OTHER_RELEASE and s["api"] not in UNORDERED]


@pytest.mark.parametrize("sample", EXACT, ids=name)
def test_the_response_is_kafka_s_byte_for_byte(sample):
    frame, _ = answer(sample, place(sample))
    assert frame == bytes.fromhex(sample["response_hex"])


@pytest.mark.parametrize("sample", [s for s in SAMPLES if s["api"] in UNORDERED], ids=name)
def test_the_rows_are_kafka_s(sample):
    frame, _ = answer(sample, place(sample))
    expected = decoded(sample, bytes.fromhex(sample["response_hex"]))
    found = decoded(sample, frame)
    assert sorted(map(repr, found.config_resources)) == sorted(map(repr, expected.config_resources))
    assert found.error_code == expected.error_code


@pytest.mark.parametrize("sample", SAMPLES, ids=name)
def test_the_records_are_those_of_kafka_s_log(sample):
    _, written = answer(sample, place(sample))
    if not written:
        assert sample["flags"] or sample["api"].startswith(READS) or key(sample) in NO_RECORDS
        return
    batches = batches_from(sample["scenario"], place(sample))
    changes = [[r for r in batch if not isinstance(r, NoOpRecord)] for batch in batches]
    (batch, *_) = filter(None, changes)
    whole = batch[IN_ONE_BATCH.get(key(sample), slice(None))]
    assert sorted(written, key=repr) == sorted(whole, key=repr)


@pytest.mark.parametrize(
    "sample",
    [s for s in SAMPLES if s["scenario"] == "static-3.9.1" and s["api_key"] == 32],
    ids=name,
)
def test_configs_of_3_9_1_that_we_know_are_described_alike(sample):
    frame, _ = answer(sample, place(sample))
    expected = decoded(sample, bytes.fromhex(sample["response_hex"]))
    for theirs, ours in zip(expected.results, decoded(sample, frame).results, strict=True):
        assert theirs.error_code == ours.error_code
        known = {config.name: config for config in theirs.configs}
        for config in ours.configs:
            if config.name not in DIFFERENT_CONFIGS:
                assert config == known[config.name]


def test_every_listed_difference_is_a_sample():
    assert set(OTHER_RELEASE) <= {key(sample) for sample in SAMPLES}
    assert set(UNORDERED) <= {sample["api"] for sample in SAMPLES}
    assert {*PLACES, *IN_ONE_BATCH, *NO_RECORDS} <= {key(sample) for sample in SAMPLES}


def test_requests_are_written_again_as_they_were():
    for sample in SAMPLES:
        header, body = request_of(sample)
        frame = codec.encode_request(
            header.api_key, header.api_version, header.correlation_id, header.client_id, body
        )
        if "LEFTOVER" not in sample["flags"]:
            assert frame == bytes.fromhex(sample["request_hex"])
