"""Each check of transactions fails when what it checks is broken."""

import pytest

from metadata.image import EMPTY
from simulator.checks.partitions import transactions
from simulator.checks.partitions.records import RecordChecks
from simulator.checks.partitions.transaction_view import TransactionView, view_of
from simulator.checks.partitions.transactions import TransactionChecks
from simulator.cluster.streams import Streams
from simulator.records.requests import Producer
from simulator.records.run import why_unfinished
from simulator.records.world import RecordsWorld
from tests.simulator.records.worlds import broken, rested
from tests.simulator.worlds import quiet_settings


@pytest.fixture
def checks():
    """Checks of a world without machines and topics, with the marks that they hit."""
    return TransactionChecks({}, RecordChecks({}, lambda: EMPTY, lambda: 0, lambda _: None),
                             lambda: EMPTY)  # fmt: skip


def begun(checks, *values, number=0):
    written = checks.begin("x of process 0, 1")
    written.send(number, values)
    checks.owned_by(written, values)
    return written


def saw(checks, *values):
    checks.consumed(0, 0, len(values), dict(enumerate(values)))


def test_nobody_sees_what_nobody_asked_to_commit(checks):
    begun(checks, b"a")
    said = broken("D4", lambda: saw(checks, b"a"))
    assert "offset 0: b'a' of x of process 0, 1 is seen, nobody asked to commit it" in said


def test_nobody_sees_what_was_aborted_or_refused(checks):
    written = begun(checks, b"a")
    written.ask_commit()
    saw(checks, b"a")
    written.end(is_commit=False)
    assert "is seen, aborted" in broken("D4", lambda: saw(checks, b"a"))


def test_all_readers_see_the_same(checks):
    begun(checks, b"a").ask_commit()
    checks.consumed(0, 5, 7, {5: b"a"})
    checks.consumed(0, 5, 7, {5: b"a"})
    checks.consumed(1, 5, 7, {})
    said = broken("D4", lambda: checks.consumed(0, 4, 6, {}))
    assert said.endswith("offset 5: a consumer sees None, another one b'a'")


def test_an_epoch_is_of_one_process(checks):
    checks.initialized("x", 1, Producer(7, 0))
    checks.initialized("x", 1, Producer(7, 0))
    checks.initialized("x", 2, Producer(7, 1))
    checks.initialized("y", 2, Producer(7, 0))
    said = broken("D4", lambda: checks.initialized("x", 2, Producer(7, 0)))
    assert said.startswith("D4: x: processes 1 and 2 have ")


def whole(checks, written, **committed):
    checks._check_whole(written, {int(key[1:]): set(values) for key, values in committed.items()})


def test_a_transaction_that_nobody_committed_is_not_in_the_logs(checks):
    written = begun(checks, b"a")
    whole(checks, written, p0=[b"x"])
    assert "is committed: nobody asked" in broken("D4", lambda: whole(checks, written, p0=[b"a"]))
    written.end(is_commit=False)
    assert "is committed: aborted" in broken("D4", lambda: whole(checks, written, p0=[b"a"]))


def test_a_transaction_that_may_be_committed_is_whole(checks):
    written = begun(checks, b"a")
    written.send(1, [b"b"])
    written.ask_commit()
    whole(checks, written)
    whole(checks, written, p0=[b"a"], p1=[b"b"])
    said = broken("D4", lambda: whole(checks, written, p0=[b"a"], p1=[]))
    assert said.endswith("has [(0, b'a')] committed, not [(1, b'b')]")


def test_an_acknowledged_commit_is_not_lost(checks):
    written = begun(checks, b"a")
    written.ask_commit()
    written.end(is_commit=True)
    whole(checks, written, p0=[b"a"])
    assert "is committed without [(0, b'a')]" in broken("D4", lambda: whole(checks, written))


# ---- a cluster ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def quiet():
    """A cluster with transactions, at rest; each test repairs what it breaks."""
    settings = quiet_settings(observer_count=0, hands_over=False)
    world = RecordsWorld(settings, Streams(5), [], has_transactions=True)
    world.start()
    world.run(1_500_000)
    return rested(world)


def checks_of(world):
    return world.rooms[0]._checks


def led(world, number=0):
    """The leader of a transactional partition, and its replica."""
    checks = checks_of(world)
    key = checks._keys("transactional")[number]
    node = int(world.ledger.image.topics[key[0]].partitions[number].leader)
    return world.nodes[node], key, world.record_checks.partition_at(node, key)


def test_clients_committed_and_aborted_and_readers_saw_it(quiet):
    assert quiet.marks["transaction_committed"] >= 3
    checks = checks_of(quiet)
    machine, key, _ = led(quiet)
    view = view_of(checks._checks.stored(machine, key))
    assert any(view.visible.values())
    assert checks._read[0] == view.visible
    checks.check_at_rest()


def test_readers_saw_what_is_committed(quiet, monkeypatch):
    checks = checks_of(quiet)
    monkeypatch.setitem(checks._read[0], 0, b"other")
    assert "offset 0: a consumer saw b'other'" in broken("D4", checks.check_at_rest)


def test_the_log_of_the_coordinator_is_looked_at(quiet, monkeypatch):
    said = "x begins with Ongoing"
    monkeypatch.setattr(transactions, "wrong_in_log", lambda batches: said if batches else "")
    text = broken("D4", checks_of(quiet).check_at_rest)
    assert text == f"D4: __transaction_state-0: {said}"


def test_all_transactions_are_looked_at(quiet):
    checks = checks_of(quiet)
    lost = checks.begin("lost")
    lost.send(1, [b"lost"])
    lost.ask_commit()
    lost.end(is_commit=True)
    assert "lost is committed without" in broken("D4", checks.check_at_rest)
    checks._all.remove(lost)


def test_the_last_stable_offset_does_not_go_back(quiet, monkeypatch):
    checks, (machine, key, replica) = checks_of(quiet), led(quiet)
    checks.after_step(machine)
    stable, epoch = replica.log.last_stable_offset, replica.role.leader_epoch
    place = (machine.id, machine.incarnation, (bytes(key[0]), key[1]))
    monkeypatch.setitem(checks._stable, place, (epoch, stable + 1))
    said = broken("D4", lambda: checks.after_step(machine))
    assert f"lowers the last stable offset to {stable} from {stable + 1} in epoch {epoch}" in said
    monkeypatch.setitem(checks._stable, place, (epoch - 1, stable + 1))
    checks.after_step(machine)
    assert checks._stable[place] == (epoch, stable)


@pytest.mark.parametrize("change", [-1, 1])
def test_the_last_stable_offset_is_that_of_the_log(quiet, monkeypatch, change):
    _, key, replica = led(quiet)
    monkeypatch.setattr(checks_of(quiet), "_keys", lambda _: [key])
    stable = replica.log.last_stable_offset + change
    monkeypatch.setattr(type(replica.log), "last_stable_offset", stable)
    assert f"the last stable offset is {stable}, not " in broken("D4", quiet.rooms[0].look)


def test_a_log_is_looked_at_when_it_was_opened(quiet, monkeypatch):
    """Its high watermark is that on record for a moment only; at followers too."""
    checks, (machine, key, replica) = checks_of(quiet), led(quiet)
    place = (machine.id, machine.incarnation, (bytes(key[0]), key[1]))
    assert place in checks._opened
    monkeypatch.setattr(replica, "role", None)
    monkeypatch.setattr(checks, "_keys", lambda _: [key])
    stable = replica.log.last_stable_offset + 1
    monkeypatch.setattr(type(replica.log), "last_stable_offset", stable)
    checks.after_step(machine)
    checks._opened.remove(place)
    assert f"the last stable offset is {stable}, not " in broken(
        "D4", lambda: checks.after_step(machine)
    )
    assert place in checks._opened


def test_nothing_below_the_log_start_is_unstable(quiet, monkeypatch):
    checks, replica = checks_of(quiet), led(quiet)[2]
    monkeypatch.setattr(transactions, "view_of", lambda _: TransactionView({}, [(0, None)], ""))
    monkeypatch.setattr(type(replica.log), "log_start_offset", 1)
    monkeypatch.setattr(type(replica.log), "last_stable_offset", 1)
    checks.look()


def test_what_is_not_ended_or_not_read_is_no_rest(quiet, monkeypatch):
    room, end = quiet.rooms[0], led(quiet)[2].log.end_offset
    for consumer in room.consumers:  # some have begun to read again
        monkeypatch.setattr(consumer, "position", 1 << 20)
    assert room.why_unfinished() == ""
    monkeypatch.setattr(room.consumers[0], "position", end - 1)
    said = f"consumer {room.consumers[0].host} has read up to {end - 1} of {end}"
    assert room.why_unfinished() == said
    monkeypatch.setattr(type(led(quiet)[2].log), "last_stable_offset", 0)
    assert room.why_unfinished() == f"transactional-0 is stable below 0, ends at {end}"
    monkeypatch.setattr(quiet, "consumers", [])
    assert why_unfinished(quiet) == room.why_unfinished()
    monkeypatch.setattr(room.producers[0].sessions[-1], "is_over", False)
    assert room.why_unfinished() == "a process with a transactional id is in a transaction"


def test_where_decisions_may_be_lost_nothing_is_said(quiet, monkeypatch):
    checks = checks_of(quiet)
    monkeypatch.setitem(checks._read[0], 0, b"other")
    key = checks._keys("__transaction_state")[0]
    promised = quiet.record_checks._of((bytes(key[0]), key[1]))
    monkeypatch.setattr(promised, "is_excused", True)
    checks.check_at_rest()
    assert quiet.marks["transactions_excused"] >= 1
    monkeypatch.setattr(quiet.rooms[0].consumers[0], "position", 1)
    assert quiet.rooms[0].why_unfinished() == ""


def test_a_reader_gets_nothing_above_the_last_stable_offset(quiet, monkeypatch):
    consumer = quiet.rooms[0].consumers[0]
    monkeypatch.setattr(consumer, "position", 7)
    consumer._check_stable(7)
    said = broken("D4", lambda: consumer._check_stable(6))
    assert said.endswith("partition 0: 7 is above the last stable offset 6")
