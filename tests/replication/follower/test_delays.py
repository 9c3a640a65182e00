"""Partitions of a request without usable response are delayed over turns, as budgets have room."""

from replication.follower.costs import DELAY_UNITS, END_UNITS, ENDS_MIN
from tests.replication.fetching import BACKOFF_MS, Pair, key, with_error
from tests.replication.partitions import registration
from wire.api_keys import LIST_OFFSETS
from wire.errors import ErrorCode
from wire.messages.replica_fetch import ReplicaFetchResponse

COUNT = 5


def lost(count: int = COUNT) -> Pair:
    """A follower whose request has no response, with room for two of its partitions in a turn."""
    pair = Pair(count=count)
    pair.assign(*range(count))
    pair.follower.budget.units_max = 2 * DELAY_UNITS
    pair.follower.budget.begin()
    pair.lose()
    return pair


def turn(pair: Pair) -> int:
    """Go on in a turn; the units that it spends."""
    pair.follower.budget.begin()
    pair.fetchers.go_on()
    return int(pair.follower.budget.spent)


def test_some_are_delayed_in_a_turn_and_nothing_is_sent_meanwhile() -> None:
    pair = lost()
    assert pair.follower.budget.spent == 2 * DELAY_UNITS
    pair.fetchers.tick()
    assert (pair.follower.sent, pair.fetchers.next_ms()) == ([], None)
    spent = []
    while pair.fetchers.is_busy:
        spent.append(turn(pair))
    assert spent == [2 * DELAY_UNITS, DELAY_UNITS]
    assert pair.follower.sent == []
    assert pair.fetchers.next_ms() == BACKOFF_MS
    pair.follower.advance(BACKOFF_MS)
    assert pair.numbers() == ([0, 1, 2, 3, 4], [])


def test_one_that_has_another_epoch_by_then_is_not_delayed_and_one_that_went_is_left() -> None:
    pair = lost()
    for led in (pair.led, pair.followed):
        assert key(4) in led
    pair.led[key(4)].make_leader(registration(epoch=2), 0)
    pair.followed[key(4)].make_follower(registration(epoch=2), 0)
    pair.assign(4, epoch=2)
    pair.fetchers.remove(key(3))
    while pair.fetchers.is_busy:
        turn(pair)
    assert pair.numbers() == ([4], [])


def test_a_fetcher_without_partitions_ends_behind_the_last() -> None:
    pair = lost()
    for number in range(COUNT):
        pair.fetchers.remove(key(number))
    assert pair.fetchers._fetchers != {}
    while pair.fetchers.is_busy:
        turn(pair)
    assert pair.fetchers._fetchers == {}


def test_a_refused_request_delays_over_turns_too() -> None:
    pair = Pair(count=COUNT)
    pair.assign(*range(COUNT))
    pair.follower.budget.units_max = 2 * DELAY_UNITS
    pair.follower.budget.begin()
    (*_, answered) = pair.follower.sent.pop()
    answered(ReplicaFetchResponse(code=ErrorCode.unknown_server_error, session_id=0, partitions=[]))
    assert pair.follower.budget.spent == 2 * DELAY_UNITS
    assert pair.fetchers.is_busy
    while pair.fetchers.is_busy:
        turn(pair)
    assert pair.fetchers.next_ms() == BACKOFF_MS


def test_a_partition_that_asks_for_the_ends_of_its_log_is_not_delayed() -> None:
    pair = Pair(count=2)
    pair.assign(0, 1)
    with_error(pair, ErrorCode.offset_out_of_range)
    question = pair.follower.sent.pop(0)
    assert question[2] == LIST_OFFSETS
    pair.lose()
    assert not pair.fetchers.is_busy
    pair.follower.sent.insert(0, question)
    pair.exchange()
    assert pair.follower.sent, "it does not wait for the back-off"


def test_delays_end_over_turns_and_one_request_names_all() -> None:
    count = 2 * ENDS_MIN + 3
    pair = Pair(count=count)
    pair.assign(*range(count))
    pair.lose()
    budget = pair.follower.budget
    budget.units_max = (ENDS_MIN + 2) * END_UNITS
    pair.follower.clock.now_ms += BACKOFF_MS
    assert not pair.fetchers.is_busy
    spent = []
    for units_before in (0, budget.units_max, 0):
        assert pair.follower.sent == []
        assert pair.fetchers.next_ms() == pair.follower.clock.now_ms
        budget.begin()
        budget.spend(units_before)
        pair.fetchers.tick()
        spent.append(budget.spent - units_before)
    assert spent == [budget.units_max, ENDS_MIN * END_UNITS, END_UNITS]
    assert pair.numbers() == (list(range(count)), [])


def test_a_delay_that_is_not_over_holds_no_request() -> None:
    pair = Pair(count=ENDS_MIN + 1)
    pair.assign(*range(ENDS_MIN))
    pair.lose()
    pair.follower.clock.now_ms += 1
    pair.assign(ENDS_MIN)
    pair.lose()
    pair.follower.budget.units_max = 1
    pair.follower.budget.begin()
    pair.follower.advance(BACKOFF_MS - 1)
    assert pair.numbers() == (list(range(ENDS_MIN)), [])
