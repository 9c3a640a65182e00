"""One core in each role, and each row of the role table in raft/__init__.py as events for it.

The events are given to a core whatever its role is; answers go to every request that it ever sent,
so late ones of a former role are among them.
"""

import random
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final, NamedTuple

from raft import effects as fx
from raft import error_codes as codes
from raft import events as ev
from raft import messages as m
from raft.config import EVIDENCE_RANK_MS, RaftConfig
from raft.core import RaftCore
from raft.roles import Candidate, Follower, Leader, Prospective, Resigned, Role, Unattached
from tests.raft.test_core import begin, end, fetch, vote
from wire.types import Endpoint, OffsetAndEpoch, ReplicaKey

ONE, TWO, STRANGER = 1, 2, 9
EPOCH: Final = 5
RESPONSES: Final = {
    m.VoteRequest: m.VoteResponse,
    m.BeginQuorumEpochRequest: m.BeginQuorumEpochResponse,
    m.EndQuorumEpochRequest: m.EndQuorumEpochResponse,
    m.FetchRequest: m.FetchResponse,
    m.FetchSnapshotRequest: m.FetchSnapshotResponse,
}


class Driven:
    """Node 1 with its clock; the log is written and flushed at once."""

    def __init__(self, voters=(1, 2, 3), **stored):
        endpoints = tuple((i, Endpoint("CONTROLLER", f"n{i}", 9093)) for i in voters)
        config = RaftConfig(node_id=ONE, cluster_id="c", voters=endpoints)
        self.core = RaftCore(config, rng=random.Random(1), now_ms=0, **stored)
        self.now_ms = 0
        self.sent: list[fx.SendRequest] = []
        self.is_disk_full = False
        """True: fetched records are refused."""
        self.seen: set[type] = set()
        """Classes of the events so far, and of the messages in them."""

    @property
    def role(self) -> Role:
        return self.core.role

    @property
    def leader_id(self) -> int:
        """The known leader, else one that it may come to know."""
        return self.role.leader_id or TWO

    def step(self, event):
        self.seen |= {
            type(event),
            *(type(getattr(event, n, None)) for n in ("request", "response")),
        }
        effects = self.core.step(event, self.now_ms)
        self.sent += [e for e in effects.send if isinstance(e, fx.SendRequest)]
        for effect in effects.persist:
            self._write(effect)
        return effects

    def _write(self, effect):
        generation = self.core.log_generation
        if isinstance(effect, fx.AppendFetched):
            end_offset = effect.base_offset + (not self.is_disk_full)
            starts = (ev.EpochStart(effect.epoch, effect.base_offset),) * (not self.is_disk_full)
        elif isinstance(effect, fx.AppendLeaderChange | fx.AppendBatch):
            end_offset, starts = self.core.log_end_offset, ()
        else:
            return
        last_epoch = effect.epoch if end_offset else 0
        written = ev.Appended(
            end_offset=end_offset,
            last_epoch=last_epoch,
            generation=generation,
            epochs=starts,
            is_disk_full=self.is_disk_full,
        )
        self.step(written)
        self.step(ev.Flushed(end_offset=end_offset, epoch=self.core.epoch, generation=generation))

    def request(self, request):
        self.step(ev.RequestReceived(reply_token=9, request=request))

    def answer_all(self, kind=None, **fields):
        """Answer all requests, or those of one kind, in the current epoch unless told otherwise."""
        for sent in list(self.sent):
            if kind in (None, type(sent.request)):
                response = RESPONSES[type(sent.request)](
                    **{"leader_epoch": self.role.epoch} | fields
                )
                self.respond(sent, response)

    def respond(self, sent, response):
        event = ev.ResponseReceived(
            destination_id=sent.destination_id,
            correlation_id=sent.correlation_id,
            response=response,
        )
        self.step(event)

    def fail_all(self, error_code):
        for sent in list(self.sent):
            ids = (sent.destination_id, sent.correlation_id)
            self.step(
                ev.RequestFailed(
                    destination_id=ids[0], correlation_id=ids[1], error_code=error_code
                )
            )

    def run(self, duration_ms):
        self.now_ms += duration_ms
        self.step(ev.TimeAdvanced())

    def expire(self):
        """Let the timer of the role expire."""
        names = ("election_deadline_ms", "fetch_deadline_ms", "check_quorum_deadline_ms")
        (deadline_ms,) = (getattr(self.role, name) for name in names if hasattr(self.role, name))
        self.run(deadline_ms - self.now_ms)


# ---- a core in each role ---------------------------------------------------------------------


def started(**stored) -> Driven:
    driven = Driven(**stored)
    driven.step(ev.TimeAdvanced())
    return driven


def expired(make: Callable[[], Driven]) -> Driven:
    driven = make()
    driven.expire()
    return driven


def follower() -> Driven:
    driven = started()
    driven.request(begin(TWO, EPOCH))
    return driven


def fetching() -> Driven:
    driven = follower()
    driven.answer_all(m.FetchRequest, leader_id=TWO)
    assert driven.role.has_fetched
    return driven


def candidate() -> Driven:
    driven = expired(started)
    driven.answer_all(m.VoteRequest, vote_granted=True)
    return driven


def leader() -> Driven:
    driven = candidate()
    driven.answer_all(m.VoteRequest, vote_granted=True)
    return driven


def resigned() -> Driven:
    driven = leader()
    driven.step(ev.ResignRequested(epoch=driven.role.epoch))
    return driven


def without_majority() -> Driven:
    """Unattached after pre-votes that were rejected."""
    driven = expired(started)
    driven.answer_all(m.VoteRequest)
    return driven


def with_a_leader() -> Driven:
    """Unattached with a known leader: it could not campaign when its timer expired."""
    driven = follower()
    driven.step(ev.DiskFull())
    driven.expire()
    driven.step(ev.DiskHasSpace())
    return driven


IN_EPOCH: Final = {"election_epoch": EPOCH}
VOTED: Final = {**IN_EPOCH, "election_voted_key": ReplicaKey(TWO)}
STOOD: Final = {**IN_EPOCH, "election_voted_key": ReplicaKey(ONE)}
LED: Final = {**IN_EPOCH, "election_leader_id": ONE}
CORES: Final[dict[type[Role], tuple[Callable[[], Driven], ...]]] = {
    Unattached: (
        started,
        partial(started, **IN_EPOCH),
        partial(started, **VOTED),
        without_majority,
        with_a_leader,
    ),
    Prospective: (
        partial(expired, started),
        partial(expired, partial(started, **IN_EPOCH)),
        partial(expired, partial(started, **VOTED)),
        partial(expired, follower),
    ),
    Candidate: (candidate, partial(started, **STOOD)),
    Leader: (leader,),
    Follower: (follower, fetching),
    Resigned: (resigned, partial(started, **LED)),
}
ONLY_VOTERS: Final = tuple(partial(Driven, voters=(1,), **stored) for stored in ({}, STOOD, LED))
"""Before their first step."""


# ---- the rows --------------------------------------------------------------------------------


def lose_leader(driven: Driven) -> None:
    driven.step(ev.LeaderUnreachable(leader_id=driven.leader_id, epoch=driven.role.epoch))
    driven.run(EVIDENCE_RANK_MS)


def hear_of_no_leader(driven: Driven) -> None:
    driven.answer_all(m.FetchRequest, error_code=codes.NOT_LEADER_OR_FOLLOWER)
    driven.run(EVIDENCE_RANK_MS)


def resign_for(driven: Driven, *successors: int) -> None:
    """The leader resigns; to any other than a follower its message names the leader."""
    if isinstance(driven.role, Follower):
        driven.request(end(driven.leader_id, driven.role.epoch, successors))


def vote_for_another(driven: Driven) -> None:
    last_epoch = max(driven.role.epoch - 1, 0)
    driven.request(vote(driven.role.epoch, last_epoch=last_epoch, end=9))


def name_leader(driven: Driven, error_code: int) -> None:
    driven.answer_all(leader_id=driven.leader_id, error_code=error_code)


def next_epoch(driven: Driven, leader_id: int | None, error_code: int) -> None:
    next_epoch = driven.role.epoch + 1
    driven.answer_all(leader_id=leader_id, leader_epoch=next_epoch, error_code=error_code)


def refuse_records(driven: Driven) -> None:
    """The disk refuses what was fetched."""
    if isinstance(driven.role, Follower):
        driven.is_disk_full = True
        driven.answer_all(m.FetchRequest, leader_id=TWO, records=b"r")


def fetch_snapshot(driven: Driven, event: type | None) -> None:
    """A follower fetches a snapshot, which is installed or refused at the end, or neither yet."""
    if not isinstance(driven.role, Follower):
        return
    wanted = OffsetAndEpoch(9, 1)
    driven.answer_all(m.FetchRequest, leader_id=TWO, snapshot_id=wanted)
    if event is None:
        return
    chunk = {"snapshot_id": wanted, "size_bytes": 1, "chunk": b"c"}
    driven.answer_all(m.FetchSnapshotRequest, leader_id=TWO, **chunk)
    more = {"generation": 1} if event is ev.SnapshotInstalled else {}
    driven.step(event(snapshot_id=wanted, **more))


def transfer(driven: Driven) -> None:
    """A leader hands over to a voter that has its log."""
    if isinstance(driven.role, Leader):
        epoch = driven.role.epoch
        driven.request(fetch(epoch, driven.core.log_end_offset, epoch, replica=TWO))
    driven.request(m.TransferLeadershipRequest(replicas=(TWO, ONE, 3), timeout_ms=1))


def chunk_of_a_snapshot(epoch: int) -> m.FetchSnapshotRequest:
    return m.FetchSnapshotRequest(
        cluster_id="c", replica_id=TWO, replica_directory_id=None, current_leader_epoch=epoch,
        snapshot_id=OffsetAndEpoch(1, 1), position_bytes=0, max_bytes=1,
    )  # fmt: skip


class Row(NamedTuple):
    """Events of a row; `on_full_disk`: for a core that was told of a full disk before."""

    events: tuple[Callable[[Driven], None], ...]
    on_full_disk: bool = False


TIMERS: Final = (Driven.expire,)
EVIDENCE: Final = (
    lose_leader,
    hear_of_no_leader,
    lambda d: resign_for(d, ONE),
    resign_for,
)
ROWS: Final[dict[str, Row]] = {
    "timer expires": Row(TIMERS),
    "evidence of leader failure": Row(EVIDENCE),
    "a majority grants": Row((lambda d: d.answer_all(m.VoteRequest, vote_granted=True),)),
    "a majority rejects": Row((lambda d: d.answer_all(m.VoteRequest),)),
    "a voter lacks pre-votes": Row(
        (
            lambda d: d.fail_all(codes.UNSUPPORTED_VERSION),
            lambda d: d.answer_all(m.VoteRequest, top_error_code=codes.UNSUPPORTED_VERSION),
        )
    ),
    "vote granted to another voter": Row((vote_for_another,)),
    "leader of this epoch discovered": Row(
        (
            lambda d: d.request(begin(d.leader_id, d.role.epoch)),
            lambda d: d.request(end(d.leader_id, d.role.epoch, (3, 2, 1))),
            partial(name_leader, error_code=codes.NONE),
            partial(name_leader, error_code=codes.FENCED_LEADER_EPOCH),
        )
    ),
    "higher epoch with a leader": Row(
        (
            lambda d: d.request(begin(TWO, d.role.epoch + 1)),
            lambda d: d.request(end(TWO, d.role.epoch + 1, (ONE,))),
            partial(next_epoch, leader_id=TWO, error_code=codes.NONE),
            partial(next_epoch, leader_id=TWO, error_code=codes.FENCED_LEADER_EPOCH),
        )
    ),
    "higher epoch without one": Row(
        (
            lambda d: d.request(vote(d.role.epoch + 1, last_epoch=d.role.epoch, end=9)),
            lambda d: d.request(vote(d.role.epoch + 1, pre=True)),
            partial(next_epoch, leader_id=None, error_code=codes.FENCED_LEADER_EPOCH),
            partial(next_epoch, leader_id=STRANGER, error_code=codes.NONE),
            partial(next_epoch, leader_id=ONE, error_code=codes.NONE),
        )
    ),
    "resignation, shutdown or transfer requested": Row(
        (
            lambda d: d.step(ev.ResignRequested(epoch=d.role.epoch)),
            lambda d: d.step(ev.ShutdownRequested()),
            transfer,
        )
    ),
    "disk full": Row((lambda d: d.step(ev.DiskFull()), refuse_records)),
    "timer or evidence on a full disk": Row(TIMERS + EVIDENCE, on_full_disk=True),
}
"""The rows of the table, without that of an only voter."""
VOTER: Final = {"cluster_id": "c", "voter_id": TWO, "directory_id": b"2" * 16}


def description(epoch: int) -> m.UpdateVoterRequest:
    """An UpdateRaftVoter of node 2."""
    return m.UpdateVoterRequest(
        **VOTER, current_leader_epoch=epoch, endpoints=(), kraft_version_min=0, kraft_version_max=1
    )


def late(request: m.RaftRequest) -> fx.SendRequest:
    """A request that is not in flight any more."""
    return fx.SendRequest(destination_id=TWO, correlation_id=-1, request=request)


OTHERS: Final = Row(
    (
        lambda d: d.request(fetch(d.role.epoch)),
        lambda d: d.request(m.DescribeQuorumRequest()),
        lambda d: d.step(ev.QuorumGone()),
        lambda d: d.request(chunk_of_a_snapshot(d.role.epoch)),
        lambda d: d.request(begin(3, d.role.epoch - 1)),
        lambda d: d.request(vote(d.role.epoch - 1)),
        lambda d: d.request(vote(d.role.epoch, pre=True)),
        lambda d: d.step(ev.Propose(epoch=d.role.epoch, values=(b"v",))),
        lambda d: d.step(ev.SnapshotAdded(snapshot_id=OffsetAndEpoch(0, 0), log_start_offset=0)),
        lambda d: d.step(ev.DiskHasSpace()),
        lambda d: d.step(ev.ReadIndexRequested(7)),
        lambda d: d.request(m.AddVoterRequest(**VOTER, endpoints=())),
        lambda d: d.request(m.RemoveVoterRequest(**VOTER)),
        lambda d: d.request(description(d.role.epoch)),
        lambda d: d.step(ev.RaiseKRaftVersion(epoch=d.role.epoch - 1, level=1)),
        lambda d: d.respond(late(m.ApiVersionsRequest()), m.ApiVersionsResponse()),
        lambda d: d.respond(late(description(d.role.epoch)), m.UpdateVoterResponse()),
        lambda d: d.run(1),
        lambda d: d.fail_all(codes.BROKER_NOT_AVAILABLE),
        lambda d: d.answer_all(error_code=codes.INVALID_REQUEST),
        partial(fetch_snapshot, event=None),
        partial(fetch_snapshot, event=ev.SnapshotInstalled),
        partial(fetch_snapshot, event=ev.SnapshotRefused),
    )
)
"""Events after which every role stays as it is."""


def driven_cores(role: type[Role], row: Row) -> Iterator[tuple[Driven, Callable[[Driven], None]]]:
    """Every core of the role with every event of the row, not yet given."""
    for make in CORES[role]:
        for event in row.events:
            driven = make()
            if row.on_full_disk:
                driven.step(ev.DiskFull())
                if type(driven.role) is not role:
                    continue
            assert type(driven.role) is role, f"{driven.role=}"
            yield driven, event
