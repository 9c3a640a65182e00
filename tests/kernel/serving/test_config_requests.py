"""AlterConfigs at a broker: what it answers itself, what it passes on, and both as one answer."""

import pytest
from kio.schema.incremental_alter_configs.v1.request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

from kernel.serving.config_requests import forward_alter_configs
from metadata.image import EMPTY
from metadata.node_configs import NodeConfigs
from network.answers import Encoded
from quorum_controller.configs.alter_configs import incremental_alter_configs_response
from wire.api_keys import INCREMENTAL_ALTER_CONFIGS
from wire.connections.connection import Request
from wire.errors import ApiError, ErrorCode
from wire.messages import codec

TAKEN = ApiError(ErrorCode.none)
GONE = ApiError(ErrorCode.unknown_topic_or_partition, "The topic 'b' does not exist.")


def resource(kind, name, **configs):
    return AlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=tuple(
            AlterableConfig(name=n.replace("_", "."), config_operation=0, value=v)
            for n, v in configs.items()
        ),
    )


def asked(*resources):
    body = IncrementalAlterConfigsRequest(resources=resources, validate_only=False)
    frame = codec.encode_request(INCREMENTAL_ALTER_CONFIGS, 1, 7, "app", body)
    return Request(INCREMENTAL_ALTER_CONFIGS, 1, 7, "app", body, 0, None, frame)


def run(request, *answers, is_encoded=False):
    """(the answer, the request that went on) of broker 1; `answers` is what comes back."""
    passed, answered = [], []

    def forward(rest, reply):
        passed.append(rest)
        body = incremental_alter_configs_response(rest.body, list(answers))
        if is_encoded:
            frame = codec.encode_response(rest.api_key, rest.api_version, 7, body)
            reply(Encoded(frame))
        else:
            reply(body)

    forward_alter_configs(request, EMPTY, NodeConfigs(EMPTY, 1, {}), forward, answered.append)
    (answer,) = answered
    return answer, passed


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ([], [("a", -1), ("1", 42), ("b", -1)]),
        (["b"], [("a", -1), ("1", 42), ("b", 3)]),
        (["b", "a"], [("a", 0), ("1", 42), ("b", 3)]),
        (["x", "a", "b"], [("a", 0), ("1", 42), ("b", 3)]),
        (None, [("a", -1), ("1", 42), ("b", -1)]),
    ],
)
def test_rows_of_the_controller_are_found_by_their_resource(told, expected):
    """Missing ones are an unknown error, and so are all if the response cannot be read."""
    request = asked(
        resource(2, "a", retention_ms="1"),
        resource(4, "1", node_id="7"),
        resource(2, "b", retention_ms="1"),
    )
    answered = []

    def forward(rest, reply):
        if told is None:
            frame = codec.encode_response(rest.api_key, 1, 7, rows(*"ab"))
            reply(Encoded(frame[:-3]))
        else:
            reply(rows(*told))

    forward_alter_configs(request, EMPTY, NodeConfigs(EMPTY, 1, {}), forward, answered.append)
    (answer,) = answered
    assert codes(answer) == expected
    texts = {row.error_message for row in answer.responses if int(row.error_code) == -1}
    assert texts <= {"The server experienced an unexpected error when processing the request."}


def rows(*names):
    """A response of the controller about topics of these names."""
    body = asked(*(resource(2, name) for name in names)).body
    errors = [GONE if name == "b" else TAKEN for name in names]
    return incremental_alter_configs_response(body, errors)


def test_a_row_for_another_type_of_resource_is_no_row():
    request = asked(resource(2, "1", retention_ms="1"), resource(4, "1", node_id="7"))
    answered = []

    def forward(rest, reply):
        body = asked(resource(4, "1")).body
        reply(incremental_alter_configs_response(body, [TAKEN]))

    forward_alter_configs(request, EMPTY, NodeConfigs(EMPTY, 1, {}), forward, answered.append)
    assert codes(answered[0]) == [("1", -1), ("1", 42)]


def codes(answer):
    return [(row.resource_name, int(row.error_code)) for row in answer.responses]


def test_a_request_without_broker_configs_goes_on_as_it_came():
    request = asked(resource(2, "a", retention_ms="1"))
    answer, (passed,) = run(request, TAKEN)
    assert passed is request
    assert codes(answer) == [("a", 0)]


def test_what_the_broker_refuses_does_not_go_on():
    request = asked(resource(4, "1", node_id="7"), resource(4, "2", log_cleaner_threads="1"))
    answer, passed = run(request)
    assert passed == []
    assert codes(answer) == [("1", 42), ("2", 42)]


def test_answers_of_both_stand_in_the_order_of_the_request():
    request = asked(
        resource(2, "a", retention_ms="1"),
        resource(4, "1", node_id="7"),
        resource(2, "b", retention_ms="1"),
    )
    for is_encoded in (False, True):
        answer, (passed,) = run(request, TAKEN, GONE, is_encoded=is_encoded)
        assert codes(answer) == [("a", 0), ("1", 42), ("b", 3)]
        assert [r.resource_name for r in passed.body.resources] == ["a", "b"]
        header, position = codec.split_request(passed.frame)
        assert (header.correlation_id, header.client_id) == (7, "app")
        sent = codec.decode_request(header.api_key, 1, memoryview(passed.frame)[position:])
        assert sent == passed.body
