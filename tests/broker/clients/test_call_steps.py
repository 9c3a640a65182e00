"""Answers in pieces: of what the first piece cannot make, charged as they go."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from broker.clients.call import PIECE_UNITS, Call
from broker.clients.front import ANSWER_UNITS, CALL_UNITS, LOOK_UNITS
from network.turn_budget import TurnBudget
from tests.broker.clients.test_call import call_of, list_offsets_frame
from tests.broker.clients.test_throttling import timed_front
from tests.broker.fronts import Fronts, list_offsets
from wire.api_keys import LIST_OFFSETS
from wire.errors import ErrorCode
from wire.messages import codec
from wire.steps import Steps, finished

NEW = codec.newest(LIST_OFFSETS, "response")


def body_of(count: int, name: str = "a") -> Any:
    rows = tuple(
        NEW.ListOffsetsPartitionResponse(partition_index=n, error_code=ErrorCode(n % 2))
        for n in range(count)
    )
    topic = NEW.ListOffsetsTopicResponse(name=name, partitions=rows)
    return NEW.ListOffsetsResponse(throttle_time=timedelta(0), topics=(topic,))


def steps_of(call: Call, pieces: int, left: int) -> Iterator[Any]:
    """A body behind so many pieces, the last of which costs `left`."""
    for _ in range(pieces):
        call.spend(PIECE_UNITS)
        yield call.take_units()
    call.spend(left)
    return body_of(1)


def budget_of(pieces: int, left: int) -> tuple[Fronts, TurnBudget]:
    """A front with the request, and what its first look spent."""
    budget = TurnBudget(CALL_UNITS + 1)
    budget.begin()

    def handle(call: Call) -> None:
        steps: Steps[Any] = steps_of(call, pieces, left)
        call.answer_from(steps)

    fronts = Fronts(budget=budget, handle=handle)
    fronts.open()
    fronts.receive(list_offsets())
    return fronts, budget


def test_a_body_that_the_first_piece_makes_is_answered_at_once_and_charged() -> None:
    fronts, budget = budget_of(0, 5)
    assert fronts.sent()
    assert budget.spent == LOOK_UNITS + CALL_UNITS + 5


def test_the_first_of_several_pieces_is_charged_in_its_turn() -> None:
    fronts, budget = budget_of(2, 5)
    assert not fronts.sent()
    assert budget.spent == LOOK_UNITS + CALL_UNITS + PIECE_UNITS
    spent = []
    while not fronts.sent():
        budget.begin()
        fronts.front.go_on()
        spent.append(budget.spent)
    assert spent[0] == LOOK_UNITS + PIECE_UNITS
    assert sum(spent[1:]) - 5 in (LOOK_UNITS, LOOK_UNITS + ANSWER_UNITS, 2 * LOOK_UNITS)


def test_an_answer_in_pieces_has_the_bytes_of_one_at_once_and_counts_its_errors() -> None:
    sent, errors = [], []
    for is_whole in (True, False):
        frame, position = list_offsets_frame()
        call, answers = call_of(LIST_OFFSETS, 7, frame, position)
        if is_whole:
            call.answer(body_of(1_025))
        else:
            pieces = list(call.answer_in_steps(body_of(1_025)))
            assert pieces[:2] == [128, 128]
            assert len(pieces) > 2
        ((parts, reason),) = answers
        assert reason is None
        assert parts is not None
        sent.append(b"".join(map(bytes, parts)))
        errors.append(call._errors)
    assert sent[0] == sent[1]
    assert errors[0] == errors[1] == {(LIST_OFFSETS, 0): 513, (LIST_OFFSETS, 1): 512}


def test_an_answer_that_cannot_be_said_closes_the_connection() -> None:
    frame, position = list_offsets_frame()
    call, answers = call_of(LIST_OFFSETS, 5, frame, position)
    finished(call.answer_in_steps(body_of(1, "a" * (1 << 15))))
    ((parts, reason),) = answers
    assert parts is None
    assert reason is not None
    assert reason.startswith("the answer cannot be said in this version: ")


@pytest.mark.parametrize("count", [1, 300])
def test_an_answer_in_pieces_says_the_throttle_time(count: int) -> None:
    fronts = timed_front(1_050_000_000, request_percentage=10)
    fronts.receive(list_offsets(7))
    finished(fronts.calls[0].answer_in_steps(body_of(count)))
    fronts.front.go_on()
    _, body = codec.decode_response(LIST_OFFSETS, 7, fronts.sent()[4:])
    assert body.throttle_time.total_seconds() == 0.5
