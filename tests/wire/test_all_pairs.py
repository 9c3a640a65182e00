"""Every recorded request and answer, of every API: read and written again byte for byte."""

import pytest

from tests.wire.recorded_pairs import pairs
from wire.messages.codec import (
    decode_request,
    decode_response,
    encode_request,
    encode_response,
    split_request,
)

PAIRS = pairs()
ONLY_READ = {
    **dict.fromkeys([0, 8, 9, 10, 13, 24], "of records, groups and transactions: not served"),
    (1, 11): "names of topics, where Fetch has ids since 13",
    (3, 10): "authorized operations of the cluster, in Metadata 8 to 10 only",
    (57, 1): "results per feature, in UpdateFeatures before 2",
}
"""Fields of older versions that the newest, the one shape inside, lacks; by API or version."""


def is_exact(pair: dict[str, int]) -> bool:
    key = pair["api_key"]
    return key not in ONLY_READ and (key, pair["api_version"]) not in ONLY_READ


def test_all_are_here() -> None:
    assert len(PAIRS) == 855
    assert len({pair["api_key"] for pair in PAIRS if is_exact(pair)}) > 40


@pytest.mark.parametrize("key", sorted({pair["api_key"] for pair in PAIRS}))
def test_pairs_of_one_api(key: int) -> None:
    for pair in (pair for pair in PAIRS if pair["api_key"] == key):
        version = pair["api_version"]
        frame = bytes.fromhex(pair["request_hex"])
        header, position = split_request(frame)
        request = decode_request(key, version, memoryview(frame)[position:])
        again = encode_request(key, version, header.correlation_id, header.client_id, request)
        if is_exact(pair):
            # librdkafka leaves bytes behind some requests, which nobody reads
            sent = frame[: len(again)] if "LEFTOVER" in pair["flags"] else frame
            assert again == sent, pair["id"]
        if pair["response_hex"]:
            frame = bytes.fromhex(pair["response_hex"])
            correlation_id, response = decode_response(key, version, frame)
            again = encode_response(key, version, correlation_id, response)
            assert again == frame or not is_exact(pair), pair["id"]
