"""Checks of copies and of offsets in transactions, told by hand what there is."""

import pytest

from metadata.image import EMPTY
from simulator.checks.partitions.copies import wrong_copies
from simulator.checks.partitions.groups import Asked, GroupChecks
from simulator.checks.partitions.records import RecordChecks
from simulator.checks.partitions.transactions import TransactionChecks
from simulator.groups.bodies import Committer
from tests.simulator.records.worlds import broken

COPIES = [b"1:0:0:0:0", b"1:0:1:0:1", b"2:0:0:1:0"]
ENDS = {0: 2, 1: 1, 2: 0}


@pytest.mark.parametrize(
    ("values", "wrong"),
    [
        (COPIES, ""),
        ([*COPIES, b"7:0:3", b"7:0:4:late"], ""),  # of others, which copy nothing
        ([*COPIES, b"2:1:9:1:0"], "1 records have several copies: [(1, 0)]"),
        (COPIES[1:], "records without a copy: [(0, 0)], copies of no record: []"),
        ([*COPIES, b"1:0:2:0:2"], "records without a copy: [], copies of no record: [(0, 2)]"),
        ([*COPIES, b"1:0:2:2:0"], "records without a copy: [], copies of no record: [(2, 0)]"),
    ],
)
def test_a_record_has_one_copy(values, wrong):
    assert wrong_copies(values, ENDS) == wrong


BY = Committer("copying", "m", 3)
PLACE = ("copying", 0)


class Clock:
    def __init__(self):
        self.now_us = 1_000


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def checks(clock, monkeypatch):
    """Checks of a world without machines, whose group has read 100 records."""
    records = RecordChecks({}, lambda: EMPTY, lambda: clock.now_us, lambda _: None)
    checks = GroupChecks({}, records, lambda: EMPTY, lambda: clock.now_us, "grouped")
    checks.transactions = TransactionChecks({}, records, lambda: EMPTY)
    checks.consumed(PLACE, 0, 100)
    return checks


def found(checks, commit, *, is_open=False):
    entry = None if commit is None else (commit.offsets[0], commit.metadata)
    checks._expected(PLACE, entry, "node 1 has", is_open=is_open)


def test_an_offset_is_seen_once_its_transaction_may_be_committed(checks):
    written = checks.transactions.begin("copy-1 of process 0, 1")
    commit = checks.attempt(BY, {0: 5}, written)
    said = broken("D6", lambda: found(checks, commit))
    assert said.endswith("(5, 'c1'), of copy-1 of process 0, 1, nobody asked to commit it")
    written.ask_commit()
    found(checks, commit)
    found(checks, None)
    written.end(is_commit=False)
    assert "aborted" in broken("D6", lambda: found(checks, commit))
    found(checks, None)


def test_a_committed_one_is_there_unless_its_marker_is_to_come(checks, clock):
    written = checks.transactions.begin("x")
    before, commit = checks.attempt(BY, {0: 4}), checks.attempt(BY, {0: 5}, written)
    checks.acknowledged(before, 0)
    clock.now_us += 1
    commit.sent_us = clock.now_us
    written.ask_commit()
    written.end(is_commit=True)
    checks.acknowledged(commit, 0)
    clock.now_us += 1
    found(checks, commit)
    found(checks, before, is_open=True)
    assert "a later commit was acknowledged" in broken("D6", lambda: found(checks, before))
    assert "a commit was acknowledged" in broken("D6", lambda: found(checks, None))


def test_nothing_is_said_of_offsets_where_decisions_may_be_lost(checks, clock, monkeypatch):
    plain = Committer("plain", "m", 3)
    checks.consumed(("plain", 0), 0, 100)
    written = checks.transactions.begin("x")
    commit, other = checks.attempt(BY, {0: 5}, written), checks.attempt(plain, {0: 5})
    checks.acknowledged(commit, 0)
    checks.acknowledged(other, 0)
    clock.now_us += 1
    monkeypatch.setattr(TransactionChecks, "is_excused", True)
    found(checks, commit)
    found(checks, None)
    said = broken("D6", lambda: checks._expected(("plain", 0), None, "node 1 has", is_open=False))
    assert "('plain', 0): node 1 has none" in said


def test_an_answer_is_compared_with_what_was_committed_when_it_was_asked(checks, monkeypatch):
    written = checks.transactions.begin("x")
    commit = checks.attempt(BY, {0: 5}, written)
    monkeypatch.setattr(checks, "_is_still", lambda *_: True)
    asked = Asked(2_000, None)
    said = broken("D6", lambda: checks.fetched(PLACE, 5, commit.metadata, asked))
    assert "fetched (5, 'c1'), of x" in said
