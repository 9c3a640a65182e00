"""The replicas of a raft scenario: cores with disks and clocks, and the messages between them.

The effects of a step are performed in their order (`raft.effects`), and each gives a line of text;
a log appends at once, and is flushed at once unless the scenario flushes by hand.
"""

from typing import Final

import msgspec

from raft import effects as fx
from raft import error_codes
from raft import events as ev
from raft import messages as m
from raft.config import RaftConfig
from raft.core import RaftCore
from raft.state import RaftInvariantError
from simulator.scenarios import raft_text as text
from simulator.scenarios.command import ScenarioError
from simulator.scenarios.raft_disk import Append, ScenarioDisk
from simulator.scenarios.raft_text import Record
from simulator.scenarios.scripted_rng import ScriptedRng
from wire.types import (
    LeaderEpoch,
    NodeId,
    Offset,
    OffsetAndEpoch,
)

DELIVERIES_MAX: Final = 500
"""Messages one `run` delivers; more means that replicas answer each other for ever."""


TIMERS_MAX: Final = 200
"""Timers of one replica that `timeout` lets fire before it gives up."""


class Replica:
    """One replica: disk, clock, random draws; the core lives from `start` to `stop`."""

    def __init__(self, config: RaftConfig) -> None:
        self.config = config
        self.id = config.node_id
        self.disk = ScenarioDisk()
        self.rng = ScriptedRng()
        self.now_ms = 0
        self.core: RaftCore | None = None
        self.flushes_by_hand = False
        self.role = ""
        self.losses: list[fx.LeaderChanged] = []
        """Changes of the leader that had a cause, since `causes` last showed them."""

    @property
    def running(self) -> RaftCore:
        """The core, which must have been started."""
        if self.core is None:
            raise ScenarioError(f"{self.id} is not started")
        return self.core

    def start(self) -> None:
        """Make a core from what the disk holds."""
        disk = self.disk
        epoch, leader_id, voted_key = disk.election
        self.role = ""
        self.core = RaftCore(
            self.config,
            election_epoch=epoch,
            election_leader_id=leader_id,
            election_voted_key=voted_key,
            log_start_offset=Offset(disk.start_offset),
            log_end_offset=Offset(disk.end_offset),
            epoch_entries=disk.epoch_entries(disk.start_offset, disk.end_offset),
            earliest_snapshot=disk.snapshots[0] if disk.snapshots else None,
            latest_snapshot=disk.snapshots[-1] if disk.snapshots else None,
            is_unproven=disk.is_unproven,
            rng=self.rng,
            now_ms=self.now_ms,
        )


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """Message in flight: a request, or with `response` the answer to it."""

    source_id: NodeId
    target_id: NodeId
    sent: fx.SendRequest
    response: m.RaftResponse | None = None


class ScenarioQuorum:
    """The replicas, their messages, and lines of what they did since `said` was last emptied."""

    def __init__(self) -> None:
        self.replicas: dict[NodeId, Replica] = {}
        self.network: list[Message] = []
        self._isolated: set[NodeId] = set()
        self.in_flight: dict[tuple[NodeId, NodeId], fx.SendRequest] = {}
        """Last request from one replica to another, for `answer` and `fail`."""
        self._callers: dict[int, tuple[NodeId | None, fx.SendRequest | None]] = {}
        """Reply token -> sender of a request, and the request when a replica sent it."""
        self.said: list[str] = []
        self.shows_endpoints = False
        """True: the line of an answer ends with the endpoint that it names for the leader."""
        self._committed: list[Record | None] = []
        self._connections: dict[tuple[NodeId, NodeId], int] = {}
        self._next_connection_id = 0
        self._next_token = 1

    def fire(self, replica: Replica) -> None:
        """Let the next timer of the replica fire."""
        deadline_ms = replica.running.next_deadline_ms()
        if deadline_ms is None:
            raise ScenarioError(f"{replica.id} waits for no timer")
        assert deadline_ms > replica.now_ms, f"busy loop: {deadline_ms=} {replica.now_ms=}"
        replica.now_ms = deadline_ms
        self.step(replica, ev.TimeAdvanced())

    def fire_until_change(self, replica: Replica) -> None:
        """Let timers fire until one changes the role."""
        before = replica.role
        for _ in range(TIMERS_MAX):
            self.fire(replica)
            if replica.role != before:
                return
        raise ScenarioError(f"{replica.id} is {before} after {TIMERS_MAX} timers")

    def run_until_quiet(self) -> None:
        """Deliver messages, oldest first, until none is in flight."""
        for _ in range(DELIVERIES_MAX):
            if not self.network:
                return
            self.arrive(self.network.pop(0))
        raise ScenarioError(f"not quiet after {DELIVERIES_MAX} messages")

    def take_message(self, source: int, target: int) -> Message:
        """Take the oldest message between two replicas out of the network."""
        for message in self.network:
            if (message.source_id, message.target_id) == (source, target):
                self.network.remove(message)
                return message
        raise ScenarioError(f"no message from {source} to {target}")

    def lose_messages_of(self, node_id: NodeId) -> None:
        """Lose the messages in flight from and to a replica."""
        self.network = [x for x in self.network if node_id not in (x.source_id, x.target_id)]

    def withdraw(self, sent: fx.SendRequest) -> None:
        """Take a request out of the network, if it is there: the scenario plays its answer."""
        self.network = [x for x in self.network if x.sent is not sent]

    def forget_caller(self, node_id: NodeId) -> None:
        """Forget that a replica waits for answers."""
        self._callers = {t: c for t, c in self._callers.items() if c[0] != node_id}

    def isolate(self, node_id: NodeId) -> None:
        """Lose messages from and to a replica until `heal`, those in flight too."""
        self._isolated.add(node_id)
        self.lose_messages_of(node_id)

    def heal(self, node_id: NodeId) -> None:
        """Lose no more messages of a replica."""
        self._isolated.discard(node_id)

    def arrive(self, message: Message) -> None:
        """Deliver a message; a stopped replica gets nothing."""
        target = self.replica(message.target_id)
        if target.core is None:
            return
        if message.response is not None:
            self.respond(target, message.sent, message.response)
        else:
            self.request(target, message.source_id, message.sent.request, message.sent)

    def request(
        self,
        target: Replica,
        sender: NodeId | None,
        request: m.RaftRequest,
        sent: fx.SendRequest | None,
    ) -> None:
        """Send a request to a replica; `sent` when another replica of the scenario sent it."""
        token = self._next_token
        self._next_token += 1
        self._callers[token] = (sender, sent)
        event = ev.RequestReceived(
            reply_token=token,
            request=request,
            wall_ms=target.now_ms,
            connection_id=None if sender is None else self._connection(sender, target.id),
        )
        self.step(target, event)

    def _connection(self, sender: NodeId, target: NodeId) -> int:
        """Number of the connection between two replicas; a new one after `reconnect`."""
        route = (sender, target)
        if route not in self._connections:
            self._next_connection_id += 1
            self._connections[route] = self._next_connection_id
        return self._connections[route]

    def reconnect(self, sender: NodeId, target: NodeId) -> None:
        """Let the next request between two replicas come on another connection."""
        self._connections.pop((sender, target), None)

    def respond(self, target: Replica, sent: fx.SendRequest, response: m.RaftResponse) -> None:
        """Answer a request that the replica sent."""
        event = ev.ResponseReceived(
            destination_id=sent.destination_id,
            correlation_id=sent.correlation_id,
            response=response,
        )
        self.step(target, event)

    def flush_log(self, replica: Replica) -> None:
        """Make all that is written durable, and step the core with it."""
        replica.disk.flushed_end_offset = replica.disk.end_offset
        if replica.flushes_by_hand:
            self.say(replica, f"flushed end={replica.disk.end_offset}")
        flushed = ev.Flushed(
            end_offset=Offset(replica.disk.end_offset),
            epoch=replica.running.epoch,
            generation=replica.running.log_generation,
        )
        self.step(replica, flushed)

    def replica(self, node_id: int) -> Replica:
        """Replica with this id."""
        if NodeId(node_id) not in self.replicas:
            raise ScenarioError(f"no node {node_id}")
        return self.replicas[NodeId(node_id)]

    def say(self, replica: Replica, what: str) -> None:
        """Add a line of what a replica did."""
        self.said.append(f"{replica.id} {what}")

    def step(self, replica: Replica, event: ev.Event) -> None:
        """Step the core and perform its effects, in order; then its log answers."""
        core = replica.running
        try:
            effects = core.step(event, replica.now_ms)
        except RaftInvariantError as error:
            self.say(replica, f"stops: {str(error).split()[0]}")
            replica.core = None
            return
        role = text.role_text(core.role)
        if role != replica.role:
            self.say(replica, role)
            replica.role = role
        answers: list[ev.Event] = []
        for persist in effects.persist:
            answers += self._persist(replica, persist)
        for send in effects.send:
            self._send(replica, send)
        for notify in effects.notify:
            self._notify(replica, notify)
        self._log_answers(replica, answers)

    def _persist(self, replica: Replica, effect: fx.PersistEffect) -> list[ev.Event]:
        """Perform a write; return the events with which the log answers."""
        disk = replica.disk
        match effect:
            case fx.PersistElection():
                disk.election = (effect.epoch, effect.leader_id, effect.voted_key)
                voted = "-" if effect.voted_key is None else text.key_text(effect.voted_key)
                leader = text.name_of(effect.leader_id)
                self.say(replica, f"quorum-state epoch={effect.epoch} {leader=!s} {voted=!s}")
                return []
            case fx.RemoveUnprovenMark():
                disk.is_unproven = False
                self.say(replica, "is proven")
                return []
            case fx.TruncateLog():
                disk.truncate(effect.end_offset)
                self.say(replica, f"truncate end={effect.end_offset}")
                return []
            case fx.WriteSnapshotChunk():
                end = effect.position_bytes + len(effect.chunk)
                name = text.snapshot_text(effect.snapshot_id)
                self.say(replica, f"write {name} bytes=[{effect.position_bytes},{end})")
                if not disk.write_chunk(effect):
                    return []
                self.say(replica, f"install {name}")
                return [
                    ev.SnapshotInstalled(
                        snapshot_id=effect.snapshot_id, generation=effect.generation
                    )
                ]
            case _:
                return [self._append(replica, effect)]

    def make_space(self, replica: Replica) -> None:
        """Append what the full disk refused, in order; then the core may be candidate again."""
        disk = replica.disk
        disk.is_full = False
        stalled, disk.stalled = disk.stalled, []
        for effect in stalled:
            self._log_answers(replica, [self._append(replica, effect)])
        self.step(replica, ev.DiskHasSpace())

    def _log_answers(self, replica: Replica, answers: list[ev.Event]) -> None:
        """Step with the events of the log, each followed by its flush."""
        for answer in answers:
            self.step(replica, answer)
            if isinstance(answer, ev.Appended) and not replica.flushes_by_hand:
                self.flush_log(replica)

    def _append(self, replica: Replica, effect: Append) -> ev.Appended | ev.DiskFull:
        """Append to the disk of a replica, or refuse that because the disk is full."""
        disk = replica.disk
        if disk.is_full:
            self.say(replica, "append refused, the disk is full")
            if not isinstance(effect, fx.AppendFetched):
                if len(replica.config.voters) == 1:
                    disk.stall(effect)
                return ev.DiskFull()
            return ev.Appended(
                end_offset=Offset(disk.end_offset),
                last_epoch=LeaderEpoch(disk.record_epoch(disk.end_offset - 1) or 0),
                generation=replica.running.log_generation,
                is_disk_full=True,
            )
        appended = disk.append(effect)
        line = f"append [{effect.base_offset},{appended.end_offset}) epoch={appended.last_epoch}"
        if isinstance(effect, fx.AppendLeaderChange):
            voters, granting = (
                ",".join(map(str, ids)) for ids in (effect.voters, effect.granting_voters)
            )
            line += f" LeaderChange voters={voters} {granting=!s}"
        if isinstance(effect, fx.AppendFetched) and not effect.flush:
            line += " without flush"
        self.say(replica, line)
        return msgspec.structs.replace(appended, generation=replica.running.log_generation)

    def _send(self, replica: Replica, effect: fx.SendEffect) -> None:
        """Send a message, or show an answer to the scenario."""
        if isinstance(effect, fx.SendRequest):
            self.say(replica, f"-> {effect.destination_id} {text.request_text(effect.request)}")
            self.in_flight[replica.id, effect.destination_id] = effect
            self._post(replica.id, effect.destination_id, effect, None)
            return
        response = self._response(replica, effect)
        base_offset = (
            effect.request.fetch_offset if isinstance(effect, fx.ReadAndSendFetch) else Offset(0)
        )
        caller_id, sent = self._callers.pop(effect.reply_token, (None, None))
        answer = text.response_text(response, base_offset)
        if self.shows_endpoints:
            answer += text.endpoint_text(response)
        self.say(replica, f"=> {text.name_of(caller_id)} {answer}")
        if caller_id is not None and sent is not None:
            self._post(replica.id, caller_id, sent, response)

    def _post(
        self, source: NodeId, target: NodeId, sent: fx.SendRequest, response: m.RaftResponse | None
    ) -> None:
        if self._isolated & {source, target}:
            return
        if target in self.replicas and self.replicas[target].core is not None:
            self.network.append(
                Message(source_id=source, target_id=target, sent=sent, response=response)
            )

    def _response(
        self,
        replica: Replica,
        effect: fx.SendResponse | fx.ReadAndSendFetch | fx.ReadAndSendSnapshotChunk,
    ) -> m.RaftResponse:
        """Complete an answer with what has to be read from the disk."""
        disk, response = replica.disk, effect.response
        if isinstance(effect, fx.ReadAndSendFetch):
            assert isinstance(response, m.FetchResponse), f"{response=}"
            records = disk.read(effect.request.fetch_offset, count_max=1_000)
            return msgspec.structs.replace(response, records=text.encode_records(records))
        if isinstance(effect, fx.ReadAndSendSnapshotChunk):
            assert isinstance(response, m.FetchSnapshotResponse), f"{response=}"
            return _read_chunk(disk, effect, response)
        return response

    def _notify(self, replica: Replica, effect: fx.NotifyEffect) -> None:
        """Show an effect for the other parts of the node."""
        match effect:
            case fx.HighWatermarkAdvanced():
                self.say(replica, f"commits up to {effect.high_watermark}")
                self._check_committed(replica, effect.high_watermark)
            case fx.LeaderChanged():
                leader = text.name_of(effect.leader.leader_id)
                self.say(replica, f"tells {leader=!s} epoch={effect.leader.epoch}")
                if effect.loss is not None:
                    replica.losses.append(effect)
            case fx.Claimed():
                self.say(replica, f"may act in epoch={effect.epoch} from {effect.end_offset}")
            case fx.VotersAppended():
                self.say(replica, f"goes on at {effect.end_offset}")
            case fx.VoteWithheld():
                self.say(replica, f"withholds its vote from {effect.candidate_id}")
            case fx.ReadIndexConfirmed():
                self.say(replica, f"reads {text.tokens_text(effect.tokens)} at {effect.offset}")
            case fx.ReadIndexRefused():
                named = text.tokens_text(effect.tokens)
                self.say(replica, f"refuses reads {named}: {effect.reason.value}")
            case fx.ShutdownComplete():
                self.say(replica, "may exit")

    def _check_committed(self, replica: Replica, high_watermark: int) -> None:
        """Check that all replicas commit the same record at an offset (ConsistentCommittedData)."""
        missing = high_watermark - len(self._committed)
        self._committed += [None] * max(0, missing)
        disk = replica.disk
        for offset in range(disk.start_offset, min(high_watermark, disk.end_offset)):
            record = disk.records[offset - disk.start_offset]
            known = self._committed[offset]
            assert known in (None, record), f"{replica.id=} {offset=} {known=} {record=}"
            self._committed[offset] = record


def _read_chunk(
    disk: ScenarioDisk, effect: fx.ReadAndSendSnapshotChunk, response: m.FetchSnapshotResponse
) -> m.FetchSnapshotResponse:
    """Read a chunk of a snapshot file, or give the error that only the disk knows."""
    snapshot_id: OffsetAndEpoch = effect.snapshot_id
    if snapshot_id not in disk.snapshots:
        return msgspec.structs.replace(response, error_code=error_codes.SNAPSHOT_NOT_FOUND)
    size_bytes = disk.snapshot_sizes[snapshot_id]
    if effect.position_bytes >= size_bytes:
        return msgspec.structs.replace(response, error_code=error_codes.POSITION_OUT_OF_RANGE)
    count = min(effect.max_bytes, size_bytes - effect.position_bytes)
    return msgspec.structs.replace(response, size_bytes=size_bytes, chunk=b"s" * count)
