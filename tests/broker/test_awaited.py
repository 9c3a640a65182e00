"""The ends of work and questions reach who waits for them, once."""

import pytest

from broker.awaited import Asks, Work
from broker.effects import Ask, Effect, Lane, RunWork
from wire.api_keys import ALLOCATE_PRODUCER_IDS
from wire.messages import codec


def test_the_end_of_a_work_reaches_who_gave_it() -> None:
    effects: list[Effect] = []
    work = Work(effects)
    ends: list[tuple[str, BaseException | None]] = []
    work.run(Lane.FILES, "/log", list, lambda error: ends.append(("first", error)))
    work.run(Lane.FLUSH, "/other", dict, lambda error: ends.append(("second", error)))
    first, second = effects
    assert isinstance(first, RunWork)
    assert isinstance(second, RunWork)
    assert (first.lane, first.name, first.work) == (Lane.FILES, "/log", list)
    failure = OSError("failed")
    work.on_done(second.token, failure)
    work.on_done(first.token, None)
    assert ends == [("second", failure), ("first", None)]
    with pytest.raises(KeyError):
        work.on_done(first.token, None)


def test_the_answer_to_a_question_reaches_who_asked() -> None:
    effects: list[Effect] = []
    asks = Asks(effects)
    answers: list[object | None] = []
    body = codec.default_request(ALLOCATE_PRODUCER_IDS)
    asks.ask(ALLOCATE_PRODUCER_IDS, body, answers.append)
    asks.ask(ALLOCATE_PRODUCER_IDS, body, answers.append)
    assert effects == [Ask(1, ALLOCATE_PRODUCER_IDS, body), Ask(2, ALLOCATE_PRODUCER_IDS, body)]
    asks.on_answer(2, None)
    asks.on_answer(1, body)
    assert answers == [None, body]


def test_who_waits_for_the_end_of_all_work_is_told_once() -> None:
    work = Work([])
    told: list[str] = []
    work.when_idle(lambda: told.append("at once"))
    assert told == ["at once"]
    work.run(Lane.FILES, "/log", list, _drop)
    work.run(Lane.FILES, "/log", list, lambda _: work.run(Lane.FILES, "/log", list, _drop))
    work.when_idle(lambda: told.append("idle"))
    work.on_done(1, None)
    work.on_done(2, None)
    assert told == ["at once"], "the end of one began another"
    work.on_done(3, OSError())
    assert told == ["at once", "idle"]
    work.run(Lane.FILES, "/log", list, _drop)
    work.on_done(4, None)
    assert told == ["at once", "idle"]


def test_one_who_is_told_can_ask_again() -> None:
    effects: list[Effect] = []
    work = Work(effects)
    work.run(Lane.FILES, "/log", list, lambda _: work.run(Lane.FILES, "/log", list, _drop))
    work.on_done(1, None)
    assert [effect.token for effect in effects if isinstance(effect, RunWork)] == [1, 2]


def _drop(_: BaseException | None) -> None:
    pass
