"""A request that holds up later ones of its connection until it has been appended."""

from broker.effects import CloseConnection, SendParts
from tests.broker.fronts import Fronts, api_versions, list_offsets, produce


def held(front):
    """A front with a Produce that is held, and the function that lets later requests go on."""
    front.open()
    front.receive(produce(100))
    front.effects.clear()
    return front.calls[0].hold()


def test_later_requests_wait_until_it_goes_on():
    front = Fronts()
    release = held(front)
    front.receive(list_offsets(1), produce(50))
    front.front.pause()
    assert len(front.calls) == 1
    assert front.reading() == [False]
    release(None)
    front.front.go_on()
    assert len(front.calls) == 3, "it is not answered: that is no reason to wait"
    front.calls[0].answer_parts([b"done"])
    front.calls[1].answer_parts([b"then"])
    parts = [b"".join(effect.parts) for effect in front.of(SendParts)]
    assert [b"done" in each for each in parts] == [True, False]


def test_others_do_not_wait_for_it():
    front = Fronts()
    held(front)
    front.open(2)
    front.receive(list_offsets(1), connection_id=2)
    assert len(front.calls) == 2


def test_its_bytes_are_kept_until_it_waits_for_replicas():
    front = Fronts()
    release = held(front)
    used = front.memory.used_bytes
    assert used > 0
    withdrawn = []
    release(lambda: withdrawn.append("withdrawn"))
    assert front.memory.used_bytes == 0
    front.front.closed(1)
    assert withdrawn == ["withdrawn"]


def test_behind_the_end_of_its_connection_nobody_waits():
    front = Fronts()
    release = held(front)
    front.front.closed(1)
    withdrawn = []
    release(lambda: withdrawn.append("withdrawn"))
    assert withdrawn == ["withdrawn"]
    assert front.memory.used_bytes == 0, "no answer follows that would give them back"


def test_one_that_is_answered_already_is_not_parked():
    front = Fronts()
    release = held(front)
    front.calls[0].answer_parts([b"refused"])
    release(None)
    front.receive(list_offsets(1))
    assert len(front.calls) == 2


def in_pieces(call):
    """Go on with a call in two pieces, of which the second one answers it."""

    def steps():
        yield 1
        call.answer_parts([b"appended"])

    call.go_on(steps())


def test_one_in_pieces_ends_behind_a_connection_that_its_client_closed():
    front = Fronts()
    release = held(front)
    front.front.closed(1)
    front.effects.clear()
    in_pieces(front.calls[0])
    release(None)
    for _ in range(3):
        front.front.go_on()
    assert front.memory.used_bytes == 0
    assert front.effects == [], "there is no connection that could be read or closed"


def test_one_in_pieces_ends_behind_a_connection_that_the_kernel_closed():
    front = Fronts()
    front.open()
    front.receive(api_versions(), produce(100))
    release = front.calls[0].hold()
    front.front.kernel_closed(1, "nonsense")
    assert len(front.of(CloseConnection)) == 1
    front.effects.clear()
    in_pieces(front.calls[0])
    release(None)
    for _ in range(3):
        front.front.go_on()
    assert front.memory.used_bytes == 0
    assert front.effects == [], "it is closed once"
