"""The requests about voters that Kafka 4.3.1 exchanged, through the messages of the core."""

import pytest

from kernel.quorum.messages import add_voter, remove_voter, update_voter, voter_versions
from kernel.quorum.messages.table import (
    request_from_wire,
    request_to_wire,
    response_from_wire,
    response_to_wire,
)
from raft import messages as m
from raft.membership.reconfig import key_text
from tests.wire.recorded_pairs import answered
from wire.errors import ErrorCode
from wire.messages import codec
from wire.messages.codec import decode_request, decode_response, encode_request, split_request
from wire.types import Endpoint, ReplicaKey

ADDED = answered("ADD_RAFT_VOTER")
REMOVED = answered("REMOVE_RAFT_VOTER")
UPDATED = answered("UPDATE_RAFT_VOTER")
RESPONSES = {80: m.AddVoterResponse, 81: m.RemoveVoterResponse}


def message_of(pair):
    frame = bytes.fromhex(pair["request_hex"])
    _, position = split_request(frame)
    body = decode_request(pair["api_key"], pair["api_version"], memoryview(frame)[position:])
    return request_from_wire(pair["api_key"], body)


@pytest.mark.parametrize("pair", [*ADDED, *REMOVED], ids=lambda pair: pair["id"])
def test_what_tools_ask_and_are_answered(pair):
    message = message_of(pair)
    decoded = pair["decoded"]["request"]["body"]
    assert (message.cluster_id, message.voter_id) == (decoded["clusterId"], decoded["voterId"])
    key = ReplicaKey(message.voter_id, message.directory_id)
    directory = decoded["voterDirectoryId"]
    assert key_text(key) == f"ReplicaKey(id={message.voter_id}, directoryId={directory})"
    if pair["api_key"] == 80:
        assert message.ack_when_committed == decoded["ackWhenCommitted"]
        assert message.endpoints == tuple(
            Endpoint(each["name"], each["host"], each["port"]) for each in decoded["listeners"]
        )
    answer = bytes.fromhex(pair["response_hex"])
    _, body = decode_response(pair["api_key"], pair["api_version"], answer)
    told = RESPONSES[pair["api_key"]](
        error_code=body.error_code.value, error_message=body.error_message
    )
    assert response_to_wire(told) == body


@pytest.mark.parametrize("pair", UPDATED, ids=lambda pair: pair["id"])
def test_what_a_voter_says_of_itself_and_is_answered(pair):
    frame = bytes.fromhex(pair["request_hex"])
    header, _ = split_request(frame)
    message = message_of(pair)
    assert (message.kraft_version_min, message.kraft_version_max) == (0, 1)
    key, written = request_to_wire(message)
    assert encode_request(key, 0, header.correlation_id, header.client_id, written) == frame
    _, body = decode_response(82, 0, bytes.fromhex(pair["response_hex"]))
    told = update_voter.response_from_wire(body)
    assert told.error_code == body.error_code.value
    assert told.leader_endpoint is not None
    assert response_to_wire(told) == body


def test_a_leader_that_is_not_known_has_no_endpoint():
    told = m.UpdateVoterResponse(error_code=6, leader_epoch=4)
    body = response_to_wire(told)
    leader = body.current_leader
    assert (leader.leader_id, leader.host, leader.port) == (-1, "", 0)
    assert update_voter.response_from_wire(body) == told


def test_names_of_listeners_are_upper_case():
    new = codec.newest(80, "request")
    body = new.AddRaftVoterRequest(
        cluster_id=None, timeout=None, voter_id=1, voter_directory_id=None,
        listeners=(new.Listener(name="controller", host="h", port=1),), ack_when_committed=False,
    )  # fmt: skip
    assert add_voter.request_from_wire(body).endpoints == (Endpoint("CONTROLLER", "h", 1),)
    assert add_voter.request_from_wire(body).directory_id is None


@pytest.mark.parametrize("directory_id", [b"d" * 16, None])
@pytest.mark.parametrize("is_acknowledged", [True, False])
def test_what_a_controller_that_joins_asks(directory_id, *, is_acknowledged):
    endpoints = (Endpoint("A", "h", 1), Endpoint("B", "i", 2))
    add = m.AddVoterRequest(
        cluster_id="c", voter_id=3, directory_id=directory_id, endpoints=endpoints,
        ack_when_committed=is_acknowledged,
    )  # fmt: skip
    remove = m.RemoveVoterRequest(cluster_id="c", voter_id=3, directory_id=directory_id)
    for key, version, request, response in (
        (80, 1, add, m.AddVoterResponse(error_code=7, error_message="why")),
        (81, 0, remove, m.RemoveVoterResponse(error_code=0)),
    ):
        api_key, body = request_to_wire(request)
        assert api_key == key
        frame = encode_request(key, version, 1, "c", body)
        _, position = split_request(frame)
        sent = decode_request(key, version, memoryview(frame)[position:])
        assert request_from_wire(key, sent) == request
        assert response_from_wire(key, response_to_wire(response)) == response


@pytest.mark.parametrize("module", [add_voter, remove_voter, update_voter])
def test_every_body_has_a_message(module):
    with pytest.raises(AssertionError):
        module.refusal(None)


def test_the_range_of_a_new_voter_is_that_of_kraft_version():
    new = codec.newest(18, "response")
    rows = (("metadata.version", 7, 30), ("kraft.version", 0, 1))
    body = new.ApiVersionsResponse(
        error_code=ErrorCode.none,
        api_keys=(), throttle_time=None,
        supported_features=tuple(
            new.SupportedFeatureKey(name=name, min_version=low, max_version=high)
            for name, low, high in rows
        ),
        finalized_features_epoch=-1, finalized_features=(), zk_migration_ready=False,
    )  # fmt: skip
    assert voter_versions.response_from_wire(body) == m.ApiVersionsResponse(kraft_version=(0, 1))
    asked = voter_versions.request_to_wire(m.ApiVersionsRequest())
    assert asked.client_software_name == "kraftline"
