"""The answer to a request that another node sent on."""

from dataclasses import replace
from types import SimpleNamespace

from kernel.serving.dispatch import envelope_answer
from wire.errors import ErrorCode
from wire.messages import codec
from wire.messages.conversion import default_entity

CREATE_TOPICS = 19


def wrapped(text, version):
    """The Envelope response around a CreateTopics response about a topic."""
    new = codec.newest(CREATE_TOPICS, "response")
    row = replace(default_entity(new.CreatableTopicResult), name=text)
    body = replace(default_entity(new.CreateTopicsResponse), topics=(row,))
    inner = SimpleNamespace(api_key=CREATE_TOPICS, api_version=version, correlation_id=7)
    answers = []
    envelope_answer(inner, answers.append)(body)
    (answer,) = answers
    return answer


def test_an_answer_is_wrapped_as_its_version_says_it():
    answer = wrapped("short", 4)
    assert answer.error_code is ErrorCode.none
    assert b"short" in answer.response_data


def test_a_name_that_the_version_cannot_say_is_an_error_of_the_envelope():
    assert wrapped("x" * 32_767, 4).error_code is ErrorCode.none
    answer = wrapped("x" * 32_768, 4)
    assert answer.error_code is ErrorCode.unknown_server_error
    assert answer.response_data is None
    assert wrapped("x" * 32_768, 7).error_code is ErrorCode.none
