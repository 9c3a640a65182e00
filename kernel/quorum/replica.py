"""One raft replica with its surroundings: the core, the log, the peers, the requests it serves.

The core is stepped with one event at a time from a queue; its effects are performed in their order
(persist, send, notify) before the next event. Events of the log go to the front of the queue
(INV-APPEND-1), all others to its end.
"""

from collections import deque
from collections.abc import Callable
from typing import Final

from msgspec.structs import replace

from kernel.quorum.log_writer import LogWriter
from kernel.quorum.messages import table
from kernel.quorum.replies import Replies
from kernel.quorum.snapshot_reading import SnapshotReading
from network.answers import NoResponse
from network.clock import Clock
from network.peers import Answered, Channel, Failure, Peers
from network.timers import NEVER_MS, RAFT
from quorum_controller.services import QuorumFacts
from raft import effects as raft
from raft import events
from raft.core import RaftCore
from raft.membership.voter_history import Membership
from raft.messages import (
    AddVoterRequest,
    ApiVersionsResponse,
    DescribeQuorumResponse,
    FetchRequest,
    FetchResponse,
    FetchSnapshotResponse,
    RaftRequest,
    RaftResponse,
    RemoveVoterRequest,
    TransferLeadershipRequest,
    UpdateVoterRequest,
)
from storage.errors import OffsetOutOfRangeError
from storage.log_dir.snapshot_files import SnapshotFiles
from wire.errors import ErrorCode
from wire.types import LeaderAndEpoch, LeaderEpoch, NodeId, Offset

ERROR_OF_FAILURE: Final = {
    Failure.UNREACHABLE: ErrorCode.broker_not_available.value,
    Failure.DISCONNECTED: ErrorCode.broker_not_available.value,
    Failure.TIMED_OUT: ErrorCode.broker_not_available.value,
    Failure.UNSUPPORTED_VERSION: ErrorCode.unsupported_version.value,
}

GROUPED_RECORDS_MAX: Final = 512
GROUPED_BYTES_MAX: Final = 256 * 1024
"""Limits up to which the proposals of a step share a batch; a larger one has its own batch."""

Notified = Callable[[raft.NotifyEffect], None]


_APPENDING: Final = (AddVoterRequest, RemoveVoterRequest, UpdateVoterRequest)
"""Requests by which a leader may append a record of its own."""


class Replica:
    """The owner of the core; `drain` steps it until the queue is empty."""

    def __init__(
        self,
        core: RaftCore,
        writer: LogWriter,
        *,
        snapshots: SnapshotFiles,
        reading: SnapshotReading,
        peers: Peers,
        clock: Clock,
        notified: Notified,
    ) -> None:
        self._core = core
        self._writer = writer
        self._log = writer.log
        self._snapshots = snapshots
        self.replies = Replies()
        self._reading = reading
        self._request_timeout_ms = core.config.request_timeout_ms
        self._peers = peers
        self._clock = clock
        self._timers = clock.timers
        self._notified = notified
        self._queue: deque[events.Event] = deque()
        self._proposals: list[events.Propose | events.RaiseKRaftVersion] = []
        """Proposals for the core, in order; held back while it hands the leadership over."""
        self._is_draining = False
        self._fetching: set[int] = set()
        """Connections with an unanswered Fetch."""

    @property
    def leader(self) -> LeaderAndEpoch:
        """Leader and epoch as known to the core."""
        return self._core.leader

    @property
    def is_leader(self) -> bool:
        """True if this node leads the quorum."""
        return self._core.is_leader

    @property
    def kraft_version(self) -> int:
        """The level of kraft.version."""
        return self._core.kraft_version

    def quorum_facts(self) -> QuorumFacts:
        """Return what a change of feature levels must know; a raise that is on its way is done."""
        core = self._core
        raises = [each for each in self._proposals if type(each) is events.RaiseKRaftVersion]
        return QuorumFacts(
            kraft_version=max([core.kraft_version, *[each.level for each in raises]]),
            voter_ids=core.voter_ids,
            raise_refusal=core.raise_refusal,
        )

    @property
    def flushed_end_offset(self) -> Offset:
        """End (exclusive) of the log that the core knows to be durable."""
        return self._core.flushed_end_offset

    def membership_before(self, end_offset: Offset) -> Membership:
        """Return level and voters for a snapshot that ends at `end_offset`."""
        return self._core.membership_before(end_offset)

    def enqueue(self, event: events.Event) -> None:
        """Queue an event for the running or next `drain`."""
        self._queue.append(event)

    def drain(self) -> None:
        """Step the core until the queue is empty.

        Proposals come before events that arrived with them: a follower's fetch of the same step is
        then answered with their records, not only with an older high watermark. While the core
        hands its leadership over they wait: it takes them when it gives up, and else drops them.
        """
        queue = self._queue
        if not queue and not self._proposals:
            return
        assert not self._is_draining, "drain is not re-entrant: use enqueue"
        self._is_draining = True
        step, now_ms = self._core.step, self._clock.now_ms
        while queue or self._has_proposals:
            if self._has_proposals:
                queue.extendleft(reversed(self._proposals))
                self._proposals.clear()
            while queue:
                if self._has_proposals and _may_append(queue[0]):
                    break  # the offsets of the proposals are known already: they come first
                effects = step(queue.popleft(), now_ms)
                if effects.persist:
                    self._persist(effects.persist)
                for send in effects.send:
                    self._send(send)
                for notify in effects.notify:
                    self._notified(notify)
        self._is_draining = False
        self._set_timer()

    @property
    def _has_proposals(self) -> bool:
        """True if there are proposals that the core takes now."""
        return bool(self._proposals) and not self._core.is_handing_over

    def _set_timer(self) -> None:
        due_ms = self._core.next_deadline_ms()
        self._timers.at_ms[RAFT] = NEVER_MS if due_ms is None else due_ms

    def flush_done(self, token: int) -> None:
        """Queue the end of a flush."""
        self._queue.append(self._writer.flush_done(token))

    def tick(self) -> None:
        """Run the timers of the core, of the stalled writer and of a snapshot that is read.

        Earlier proposals are drained before a retry, to stall behind the retried appends: else
        their offsets, which are higher, would be reported as written first.
        """
        if self._writer.is_retry_due:
            self.drain()
        read = self._reading.tick()
        if read is not None:
            self.enqueue(read)
        for event in self._writer.retry(self._core):
            self.enqueue(event)
        if self._timers.at_ms[RAFT] <= self._clock.now_ms:
            self.enqueue(events.TimeAdvanced())

    # ---- requests of peers and clients -------------------------------------------------------

    def serve(
        self, api_key: int, body: object, answered: Answered, connection_id: int | None = None
    ) -> None:
        """Serve a raft request; `answered` gets the response body.

        A second Fetch on a connection was sent before the first was answered. What a Fetch proves
        about the time at which it was sent would not hold on this connection: it is closed.
        """
        request: RaftRequest | None = table.request_from_wire(api_key, body)
        if request is None:
            answered(table.refusal(api_key, body))
            return
        if connection_id is not None and type(request) is FetchRequest:
            if connection_id in self._fetching:
                answered(NoResponse("a Fetch came behind an unanswered one"))
                return
            answered = self._noted(connection_id, answered)
        self._receive(request, answered, connection_id)

    def transfer_leadership(self, request: TransferLeadershipRequest, answered: Answered) -> None:
        """Serve a request that was taken for one of the controller; `answered` gets its body."""
        self._receive(request, answered)

    def _receive(
        self, request: RaftRequest, answered: Answered, connection_id: int | None = None
    ) -> None:
        token = self.replies.expect(answered)
        self._queue.append(
            events.RequestReceived(
                reply_token=token,
                request=request,
                wall_ms=self._clock.wall_ms,
                connection_id=connection_id,
            )
        )

    def _noted(self, connection_id: int, answered: Answered) -> Answered:
        """Note a Fetch of a connection until it is answered."""
        self._fetching.add(connection_id)

        def answer(body: object) -> None:
            self._fetching.discard(connection_id)
            answered(body)

        return answer

    def describe_quorum(self) -> DescribeQuorumResponse:
        """Return the current DescribeQuorum response."""
        return self._core.describe_quorum(self._clock.wall_ms)

    # ---- effects -----------------------------------------------------------------------------

    def _persist(self, effects: list[raft.PersistEffect]) -> None:
        results = [self._writer.perform(effect, self._core) for effect in effects]
        self._queue.extendleft([event for event in reversed(results) if event is not None])

    def _send(self, effect: raft.SendEffect) -> None:
        if type(effect) is raft.SendRequest:
            self._send_request(effect)
        elif type(effect) is raft.SendResponse:
            self._respond(effect.reply_token, effect.response)
        elif type(effect) is raft.ReadAndSendFetch:
            self._send_fetched(effect)
        else:
            self._send_snapshot_chunk(effect)

    def _respond(self, reply_token: int, response: RaftResponse) -> None:
        self.replies.answer(reply_token, table.response_to_wire(response))

    def _send_request(self, effect: raft.SendRequest) -> None:
        destination_id, correlation_id = effect.destination_id, effect.correlation_id
        api_key, body = table.request_to_wire(effect.request)
        endpoint = effect.endpoint
        if endpoint is not None:
            self._peers.set_address(destination_id, (endpoint.host, endpoint.port))
        self._peers.send(
            destination_id,
            Channel.RAFT,
            api_key,
            body,
            self._request_timeout_ms,
            lambda answer: self._on_answer(destination_id, correlation_id, api_key, answer),
        )

    def _on_answer(
        self, destination_id: NodeId, correlation_id: int, api_key: int, answer: object
    ) -> None:
        if type(answer) is Failure:
            self._failed(destination_id, correlation_id, ERROR_OF_FAILURE[answer])
            return
        response = table.response_from_wire(api_key, answer)
        if response is None:
            code = ErrorCode.network_exception.value
            self._failed(destination_id, correlation_id, code)
            return
        event = events.ResponseReceived(
            destination_id=destination_id, correlation_id=correlation_id, response=response
        )
        is_chunk = type(response) is FetchSnapshotResponse
        if not (is_chunk and self._reading.hold(event)):
            self._queue.append(event)

    def _failed(self, destination_id: NodeId, correlation_id: int, error_code: int) -> None:
        self.enqueue(
            events.RequestFailed(
                destination_id=destination_id,
                correlation_id=correlation_id,
                error_code=error_code,
            )
        )

    def _send_fetched(self, effect: raft.ReadAndSendFetch) -> None:
        response = effect.response
        assert type(response) is FetchResponse
        request = effect.request
        try:
            records = self._log.read(request.fetch_offset, request.max_bytes)
        except OffsetOutOfRangeError:
            code = ErrorCode.offset_out_of_range.value
            self._respond(effect.reply_token, replace(response, error_code=code))
            return
        self._respond(effect.reply_token, replace(response, records=records))

    def _send_snapshot_chunk(self, effect: raft.ReadAndSendSnapshotChunk) -> None:
        """Respond with a chunk of a snapshot, or with the error of its id or position."""
        response = effect.response
        assert isinstance(response, FetchSnapshotResponse)
        snapshots, snapshot_id = self._snapshots, effect.snapshot_id
        if snapshot_id not in snapshots.list():
            code = ErrorCode.snapshot_not_found.value
            self._respond(effect.reply_token, replace(response, error_code=code))
            return
        size = snapshots.size(snapshot_id)
        if not 0 <= effect.position_bytes < size:
            code = ErrorCode.position_out_of_range.value
            self._respond(effect.reply_token, replace(response, error_code=code))
            return
        chunk = snapshots.read_chunk(snapshot_id, effect.position_bytes, effect.max_bytes)
        self._respond(
            effect.reply_token,
            replace(
                response,
                snapshot_id=snapshot_id,
                size_bytes=size,
                position_bytes=effect.position_bytes,
                chunk=chunk,
            ),
        )

    def raise_kraft_version(self, epoch: LeaderEpoch, level: int) -> None:
        """Let the core raise the level behind the proposals so far, in their order."""
        self._proposals.append(events.RaiseKRaftVersion(epoch=epoch, level=level))

    def propose(self, epoch: LeaderEpoch, values: tuple[bytes, ...]) -> None:
        """Propose a batch to the core; dropped if the leadership is lost by then.

        Proposals of one step share a batch, as in Kafka's accumulator; the batch is atomic as a
        whole, which is more than each proposal requires.
        """
        proposals = self._proposals
        last = proposals[-1] if proposals else None
        if (
            type(last) is events.Propose
            and last.epoch == epoch
            and len(last.values) + len(values) <= GROUPED_RECORDS_MAX
            and sum(map(len, last.values)) + sum(map(len, values)) <= GROUPED_BYTES_MAX
        ):
            proposals[-1] = events.Propose(epoch=epoch, values=last.values + values)
        else:
            proposals.append(events.Propose(epoch=epoch, values=values))


def _may_append(event: events.Event) -> bool:
    """True for an event by which the core of a leader may append a record of its own."""
    if isinstance(event, events.RequestReceived):
        return isinstance(event.request, _APPENDING)
    return isinstance(event, events.ResponseReceived) and isinstance(
        event.response, ApiVersionsResponse
    )
