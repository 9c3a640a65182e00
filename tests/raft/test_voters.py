"""The voter set and its history are values: who is matched, and what undoes what (KIP-853)."""

import pytest

from raft.membership.voter_history import KRaftVersionAt, Membership, VoterHistory, VotersAt
from raft.membership.voters import Voter, VoterSet, replica_order, static_voters, voter_set
from raft.quorum import VoteResult, own_tally
from wire.types import Endpoint, ReplicaKey

A, B, C = (bytes([n]) * 16 for n in (1, 2, 3))
STATIC = static_voters(((2, Endpoint("C", "n2", 9)), (1, Endpoint("C", "n1", 9))))


def voters(*keys):
    return voter_set(
        tuple(Voter(ReplicaKey(*key), (Endpoint("C", f"n{key[0]}", 9),), 0, 1) for key in keys)
    )


def test_a_directory_matches_a_voter_without_one_or_with_the_same():
    dynamic = voters((1, A), (2, B))
    assert STATIC.key_of(1, C) == STATIC.key_of(1, None) == ReplicaKey(1)
    assert dynamic.key_of(1, A) == ReplicaKey(1, A)
    assert dynamic.key_of(1, B) is dynamic.key_of(1, None) is None
    assert STATIC.key_of(3, None) is STATIC.key_of(None, None) is None
    assert dynamic.is_voter(ReplicaKey(2, B))
    assert not dynamic.is_voter(ReplicaKey(2))


def test_order_others_and_endpoints():
    assert (STATIC.ids, len(STATIC)) == ((1, 2), 2)
    assert STATIC.keys == (ReplicaKey(1), ReplicaKey(2))
    assert voters((3, C), (1, A)).others(3) == (ReplicaKey(1, A),)
    assert STATIC.endpoint(2).host == "n2"
    assert STATIC.endpoint(3) is STATIC.endpoint(None) is None
    assert voter_set((Voter(ReplicaKey(1), ()),)).endpoint(1) is None
    assert [STATIC.rank(2, None), STATIC.rank(2, 1)] == [1, 0]
    keys = [ReplicaKey(2), ReplicaKey(1, B), ReplicaKey(1, A), ReplicaKey(1)]
    assert sorted(keys, key=replica_order) == keys[::-1]
    with pytest.raises(AssertionError, match="duplicate"):
        voters((1, A), (1, B))


def test_the_last_record_holds_until_it_is_truncated():
    one, two = voters((1, A)), voters((1, A), (2, B))
    history = VoterHistory(STATIC)
    assert (history.latest, history.latest_offset, history.kraft_version) == (STATIC, None, 0)
    history = history.after(KRaftVersionAt(4, 1)).after(VotersAt(5, one)).after(VotersAt(9, two))
    assert (history.latest, history.latest_offset, history.kraft_version) == (two, 9, 1)
    assert history.truncated(10) == history
    assert history.truncated(9).latest == one
    assert history.truncated(5).latest is STATIC
    assert (history.truncated(5).kraft_version, history.truncated(4).kraft_version) == (1, 0)


def test_records_come_in_order_and_leave_a_voter():
    history = VoterHistory(STATIC).after(KRaftVersionAt(4, 1)).after(VotersAt(5, voters((1, A))))
    for late in (VotersAt(5, voters((2, B))), KRaftVersionAt(4, 1), VotersAt(6, VoterSet({}))):
        with pytest.raises(AssertionError):
            history.after(late)


def test_a_snapshot_has_what_is_below_its_end_and_replaces_the_rest():
    one, two = voters((1, A)), voters((1, A), (2, B))
    history = VoterHistory(STATIC).after(KRaftVersionAt(-1, 1)).after(VotersAt(-1, one))
    history = history.after(VotersAt(9, two))
    assert history.before(9) == Membership(1, one)
    assert history.before(10) == Membership(1, two)
    assert VoterHistory(STATIC).before(10) == Membership(0, None)
    again = history.restarted(20, Membership(1, one))
    assert (again.latest, again.latest_offset, again.kraft_version) == (one, 19, 1)
    assert again.levels[0].offset == 19
    assert history.restarted(20, Membership()) == VoterHistory(STATIC)


def test_the_last_record_before_the_log_start_is_kept():
    sets = tuple(VotersAt(offset, voters((1, A))) for offset in (-1, 3, 7))
    levels = (KRaftVersionAt(-1, 1), KRaftVersionAt(2, 1))
    history = VoterHistory(STATIC, sets, levels)
    assert history.trimmed(0) == history
    assert history.trimmed(3) == VoterHistory(STATIC, sets, levels[1:])
    assert history.trimmed(4).sets == sets[1:]
    assert history.trimmed(8).sets == sets[2:]


def test_a_tally_starts_with_the_own_vote_and_without_the_lost_leader():
    three = voters((1, A), (2, B), (3, C))
    tally = own_tally(three, ReplicaKey(1, A), 2)
    assert tally.granted == {ReplicaKey(1, A)}
    assert tally.rejected == {ReplicaKey(2, B)}
    assert tally.unanswered == (ReplicaKey(3, C),)
    assert own_tally(three, ReplicaKey(1, A), 1).rejected == frozenset()
    elsewhere = tally.record(ReplicaKey(3, A), granted=True)
    assert elsewhere == tally, "another directory of the id has no vote"
    assert tally.record(ReplicaKey(3, C), granted=True).result is VoteResult.WON
    with pytest.raises(AssertionError, match="does not vote"):
        own_tally(three, ReplicaKey(1, B))
    assert own_tally(STATIC, ReplicaKey(1, A)).granted == {ReplicaKey(1)}
