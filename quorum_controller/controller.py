"""The active controller: requests in, proposals and answers out.

Theory. `committed` is the image of the committed records; each pending batch has the image after
it; `latest` is the last of them, and every request is validated against it. A resignation drops the
pending batches: `latest` is `committed` again.

- INV-QC-1: pending batches are contiguous, but for records of raft between them (`skip`): each
  starts at the end offset of the one before.
- INV-QC-2: an answer is sent when everything it was computed from is committed, so no client sees
  uncommitted state; also a refusal or a validate_only answer waits for the batches before it.
- INV-QC-3: an inactive controller has no pending batch, no parked request and no sweep.

Unlike in Kafka, an unexpected exception in a handler is a bug and propagates (there is no
UNKNOWN_SERVER_ERROR response).
Source: apache/kafka: metadata/.../controller/QuorumController.java.
"""

import dataclasses
import heapq
from collections import deque
from collections.abc import Callable, Hashable
from datetime import timedelta
from typing import Final

from msgspec.structs import replace

from metadata.image import EMPTY, Image, Provenance
from metadata.records import NoOpRecord
from quorum_controller.activation import write_activation_records
from quorum_controller.brokers.liveness import Liveness
from quorum_controller.brokers.sweeps import Sweep, SweepKind, sweep_slice
from quorum_controller.config import ControllerConfig
from quorum_controller.configs.topic_defaults import TopicConfigDefaults, partition_defaults
from quorum_controller.handler_result import HandlerResult
from quorum_controller.handlers import HANDLERS, TIMED_OUT, not_controller, refusal, timeout_ms
from quorum_controller.partitions.elections import ElectionTimer
from quorum_controller.partitions.partition_index import Electorate, PartitionIndex
from quorum_controller.periodic import NoOpTimer, TokenSweepTimer
from quorum_controller.result import (
    RECORDS_PER_BATCH_MAX,
    Answer,
    ControllerRequest,
    Draft,
    DraftPart,
    Output,
    Pending,
    Proposal,
)
from quorum_controller.security.authorization import Caller, cluster_error
from quorum_controller.security.delegation_tokens import remove_expired_tokens
from quorum_controller.services import QuorumFacts, Services
from quorum_controller.topics.mutation_quota import MutationQuotas
from quorum_controller.topics.topics import RECORDS_EXCEEDED
from wire.api_keys import BROKER_HEARTBEAT
from wire.errors import ApiError
from wire.messages.codec import Entity
from wire.types import LeaderEpoch, NodeId, Offset, Rng

LEVEL_RECORDS: Final = 2
"""KRaftVersionRecord and VotersRecord, by which raft raises kraft.version."""


class _Parked:
    """A request whose answer waits for a commit or for the end of a sweep."""

    __slots__ = ("api_key", "body", "is_answered", "reply_token", "response")

    def __init__(self, request: ControllerRequest, response: Entity) -> None:
        self.api_key = request.api_key
        self.body = request.body
        self.reply_token: Hashable = request.reply_token
        self.response = response
        self.is_answered = False


class _Batch:
    """A pending batch and the requests that wait for its commit."""

    __slots__ = ("parked", "pending")

    def __init__(self, pending: Pending) -> None:
        self.pending = pending
        self.parked: list[_Parked] = []


class Controller:
    """The controller of one node; active from `activate` to `resign`.

    Args:
        config: settings.
        rng: randomness of placements.
        new_uuid: returns the 16 bytes of a new id.
    """

    def __init__(self, config: ControllerConfig, rng: Rng, new_uuid: Callable[[], bytes]) -> None:
        self._config = config
        self._rng = rng
        self._new_uuid = new_uuid
        self._defaults = TopicConfigDefaults(config.node_id, config.properties)
        self.known_leader_id: NodeId | None = None
        """The leader in NOT_CONTROLLER answers while inactive; maintained by the kernel."""
        self.quorum = QuorumFacts(voter_ids=config.voter_ids)
        """The level and the voters; maintained by the kernel."""
        self.requests_timed_out = 0
        """Requests answered REQUEST_TIMED_OUT since the start, on arrival or while waiting."""
        self.heartbeats_timed_out = 0
        """The heartbeats among `requests_timed_out`."""
        self._reset(EMPTY, 0)

    def _reset(self, committed: Image, now_ms: int) -> None:
        """Set the state of an inactive controller that has seen a committed image."""
        self._epoch: LeaderEpoch | None = None
        self.is_active = False
        """True if this controller may propose: it has an epoch."""
        self.committed = committed
        """The last committed image that this controller saw."""
        self.latest = committed
        """The image against which requests are validated: `committed` plus all proposals."""
        self._next_offset = Offset(0)
        self._batches: deque[_Batch] = deque()
        self._parked_count = 0
        self._deadlines: list[tuple[int, int, _Parked]] = []
        self._deadline_sequence = 0
        self._sweeps: deque[tuple[Sweep, _Parked | None]] = deque()
        self._slice_due_ms = now_ms
        """Due time of the next slice of a sweep: at once, hence the time of the last call."""
        self._liveness = Liveness(self._config.session_timeout_ms, now_ms)
        self._quotas = MutationQuotas(self._config.mutations.burst_seconds)
        self._no_op = NoOpTimer(self._config.max_idle_interval_ms, now_ms)
        self._token_sweep = TokenSweepTimer(self._config.tokens.sweep_interval_ms, now_ms)
        self._index = PartitionIndex(EMPTY)
        self._electorate_known: tuple[object, Electorate] | None = None
        """The electorate with the configs it was built from, compared by identity."""
        self._elections = ElectionTimer(self._config.elections)

    # --- state ----------------------------------------------------------------------------------

    @property
    def config(self) -> ControllerConfig:
        """The settings."""
        return self._config

    @property
    def epoch(self) -> LeaderEpoch | None:
        """The epoch of the leadership, None while inactive."""
        return self._epoch

    @property
    def next_offset(self) -> Offset:
        """Offset of the next proposed record."""
        return self._next_offset

    # --- life cycle -----------------------------------------------------------------------------

    def activate(
        self,
        epoch: LeaderEpoch,
        next_offset: Offset,
        image: Image,
        now_ms: int,
        wall_ms: int,
        *,
        has_open_transaction: bool = False,
    ) -> Output:
        """Become active: this node is leader of `epoch` and its log ends at `next_offset`.

        Args:
            epoch: leader epoch.
            next_offset: log end offset, after this epoch's LeaderChange record.
            image: every data record below `next_offset` applied; the image before the transaction
                that the log may end in.
            now_ms: monotonic; every broker gets a full session from then on.
            wall_ms: since 1970, for the provenance of images; also the timestamp of the batches.
            has_open_transaction: the log ends inside a metadata transaction.

        Raises:
            ActivationError: the state of the log does not permit this version to be active.
        """
        assert not self.is_active, f"already active in {self._epoch=}"
        self._reset(image, now_ms)
        self._index = PartitionIndex(image)
        self._electorate_known = None
        self._elections.observe(self._index, now_ms)
        self._epoch = epoch
        self.is_active = True
        self._next_offset = next_offset
        output = Output()
        draft = self._draft()
        write_activation_records(
            draft, self._config.bootstrap_records, has_open_transaction=has_open_transaction
        )
        self._propose(draft, output, now_ms, wall_ms)
        return output

    def resign(self, error: ApiError | None = None) -> Output:
        """Become inactive: drop pending batches and refuse all waiting requests.

        Args:
            error: for the waiting requests; None is NOT_CONTROLLER with the known leader.
        """
        output = Output()
        refused = error or not_controller(self.known_leader_id)
        waiting = [parked for batch in self._batches for parked in batch.parked]
        waiting += [parked for _, parked in self._sweeps if parked is not None]
        for parked in waiting:
            if not parked.is_answered:
                body = refusal(parked.api_key, parked.body, refused)
                output.answers.append(Answer(parked.reply_token, body))
        self._reset(self.committed, self._slice_due_ms)
        assert not self.is_active
        return output

    # --- requests -------------------------------------------------------------------------------

    def submit(self, request: ControllerRequest, now_ms: int, wall_ms: int) -> Output:
        """Handle one request; its answer is in this output or in a later one.

        Args:
            request: the RPC.
            now_ms: monotonic.
            wall_ms: since 1970, as for `activate`.
        """
        output = Output()
        self._slice_due_ms = now_ms
        error = self._refused_at_the_door(request, now_ms)
        if error is not None:
            if error is TIMED_OUT:
                self._count_timed_out(request.api_key)
            self._refuse(request, error, output)
            return output
        draft = self._draft()
        result = self._handle(request, draft, now_ms, wall_ms)
        if isinstance(result, ApiError):
            self._refuse(request, result, output)
            return output
        if result.kraft_version is not None:
            draft = self._raise(result.kraft_version, request, output, now_ms, wall_ms)
        self._propose(draft, output, now_ms, wall_ms)
        parked = _Parked(request, result.response)
        if result.sweep is not None:
            self._sweeps.append((result.sweep, parked))
            self._park(parked, request, now_ms)
        elif self._batches:
            self._batches[-1].parked.append(parked)
            self._park(parked, request, now_ms)
        else:
            output.answers.append(Answer(parked.reply_token, parked.response))
        return output

    def commit(self, high_watermark: Offset) -> tuple[list[Pending], Output]:
        """Commit the pending batches below the high watermark.

        Returns:
            The committed batches, in order, for the loader; and the answers that waited for them.
        """
        output = Output()
        committed: list[Pending] = []
        while self._batches and self._batches[0].pending.end_offset <= high_watermark:
            batch = self._batches.popleft()
            self.committed = batch.pending.image
            committed.append(batch.pending)
            for parked in batch.parked:
                self._answer(parked, parked.response, output)
        return committed, output

    def skip(self, base_offset: Offset, end_offset: Offset) -> None:
        """Leave out the offsets of records that raft itself has appended after all proposals."""
        assert self.is_active, "an inactive controller has no next offset"
        assert base_offset == self._next_offset < end_offset, f"{base_offset=} {end_offset=}"
        self._next_offset = end_offset

    # --- time -----------------------------------------------------------------------------------

    def tick(self, now_ms: int, wall_ms: int) -> Output:
        """Run what is due: time-outs, one slice of a sweep, one stale broker, elections, timers."""
        output = Output()
        self._slice_due_ms = now_ms
        if not self.is_active:
            return output
        while self._deadlines and self._deadlines[0][0] <= now_ms:
            parked = heapq.heappop(self._deadlines)[2]
            if not parked.is_answered:
                self._count_timed_out(parked.api_key)
            self._answer(parked, refusal(parked.api_key, parked.body, TIMED_OUT), output)
        if self._sweeps:
            self._run_slice(output, now_ms, wall_ms)
        stale = self._liveness.stale_broker(self.latest, now_ms)
        if stale is not None and not self._is_being_fenced(stale.id):
            self._sweeps.append((Sweep(SweepKind.FENCE, stale), None))
            if len(self._sweeps) == 1:
                self._run_slice(output, now_ms, wall_ms)
        election_ms = self._elections.deadline_ms
        if election_ms is not None and election_ms <= now_ms:
            draft = self._draft()
            self._elections.run(draft, self._electorate(), now_ms)
            self._propose(draft, output, now_ms, wall_ms)
        if self._token_sweep.is_due(now_ms):
            draft = self._draft()
            remove_expired_tokens(draft, wall_ms)
            self._propose(draft, output, now_ms, wall_ms)
        if self._no_op.is_due(self.latest, now_ms):
            draft = self._draft()
            draft.emit(NoOpRecord())
            self._propose(draft, output, now_ms, wall_ms)
        return output

    def next_deadline_ms(self) -> int | None:
        """Return the time at which `tick` is due, None while inactive."""
        if not self.is_active:
            return None
        if self._sweeps:
            return self._slice_due_ms
        while self._deadlines and self._deadlines[0][2].is_answered:
            heapq.heappop(self._deadlines)
        latest = self.latest
        earliest_ms = self._deadlines[0][0] if self._deadlines else None
        for due_ms in (
            self._liveness.next_deadline_ms(latest),
            self._no_op.next_deadline_ms(latest),
            self._elections.deadline_ms,
            self._token_sweep.next_deadline_ms(latest),
        ):
            if due_ms is not None and (earliest_ms is None or due_ms < earliest_ms):
                earliest_ms = due_ms
        return earliest_ms

    def heartbeat_ages_ms(self, now_ms: int) -> dict[NodeId, int]:
        """Return ms since each broker's last heartbeat, at most its session; {} while inactive.

        Source: apache/kafka: QuorumControllerMetrics.timeSinceLastHeartbeatMs.
        """
        if not self.is_active:
            return {}
        limit_ms = self._config.session_timeout_ms
        ages_ms = self._liveness.ages_ms(self.latest, now_ms)
        return {broker_id: min(age_ms, limit_ms) for broker_id, age_ms in ages_ms.items()}

    # --- inside ---------------------------------------------------------------------------------

    def _handle(
        self, request: ControllerRequest, draft: Draft, now_ms: int, wall_ms: int
    ) -> HandlerResult | ApiError:
        """Call the handler of a request, and bound its records and its quota."""
        services = Services(
            config=self._config,
            context=request.context,
            quorum=self.quorum,
            defaults=self._defaults,
            rng=self._rng,
            new_uuid=self._new_uuid,
            liveness=self._liveness,
            now_ms=now_ms,
            wall_ms=wall_ms,
            electorate=self._electorate(),
            quotas=self._quotas,
        )
        self._quotas.wait_ms = 0
        result = HANDLERS[request.api_key].handle(draft, request.body, services)
        if len(draft.records) > RECORDS_PER_BATCH_MAX:
            result = RECORDS_EXCEEDED
        if self._quotas.wait_ms and not isinstance(result, ApiError):
            throttle_time = timedelta(milliseconds=self._quotas.wait_ms)
            response = dataclasses.replace(result.response, throttle_time=throttle_time)
            result = HandlerResult(response, result.sweep)
        return result

    def _raise(
        self, level: int, request: ControllerRequest, output: Output, now_ms: int, wall_ms: int
    ) -> Draft:
        """Let raft raise kraft.version; return the draft of the request behind its records."""
        output.kraft_version = level
        self.skip(self._next_offset, Offset(self._next_offset + LEVEL_RECORDS))
        draft = self._draft()
        again = self._handle(request, draft, now_ms, wall_ms)
        assert not isinstance(again, ApiError), "it was accepted at an offset before"
        return draft

    def _refused_at_the_door(self, request: ControllerRequest, now_ms: int) -> ApiError | None:
        if not self.is_active:
            return not_controller(self.known_leader_id)
        deadline = self._deadline_ms(request, now_ms)
        if self._parked_count >= self._config.pending_requests_max or (
            deadline is not None and deadline <= now_ms
        ):
            return TIMED_OUT
        context = request.context
        caller = Caller(context.principal, context.client_host)
        return cluster_error(self.latest, self._config.access, caller, request.api_key)

    def _count_timed_out(self, api_key: int) -> None:
        self.requests_timed_out += 1
        self.heartbeats_timed_out += api_key == BROKER_HEARTBEAT

    def _refuse(self, request: ControllerRequest, error: ApiError, output: Output) -> None:
        body = refusal(request.api_key, request.body, error)
        output.answers.append(Answer(request.reply_token, body))

    def _deadline_ms(self, request: ControllerRequest, now_ms: int) -> int | None:
        if request.context.deadline_ms is not None:
            return request.context.deadline_ms
        timeout = timeout_ms(request.api_key, request.body)
        return None if timeout is None else now_ms + timeout

    def _park(self, parked: _Parked, request: ControllerRequest, now_ms: int) -> None:
        self._parked_count += 1
        deadline = self._deadline_ms(request, now_ms)
        if deadline is not None:
            self._deadline_sequence += 1
            heapq.heappush(self._deadlines, (deadline, self._deadline_sequence, parked))

    def _answer(self, parked: _Parked, response: Entity, output: Output) -> None:
        if not parked.is_answered:
            parked.is_answered = True
            self._parked_count -= 1
            output.answers.append(Answer(parked.reply_token, response))

    def _draft(self) -> Draft:
        return Draft(self.latest, self._next_offset)

    def _propose(self, draft: Draft, output: Output, now_ms: int, wall_ms: int) -> None:
        """Propose the parts of a draft as pending batches; an empty draft does nothing."""
        last = DraftPart(draft.base_offset, draft.records, draft.image, draft.delta)
        for part in (*draft.parts, last):
            if part.records:
                self._propose_part(part, output, now_ms, wall_ms)

    def _propose_part(self, part: DraftPart, output: Output, now_ms: int, wall_ms: int) -> None:
        assert self._epoch is not None, "only an active controller proposes"
        assert part.base_offset == self._next_offset, f"{part.base_offset=}"
        assert len(part.records) <= RECORDS_PER_BATCH_MAX, f"{len(part.records)=}"
        self._next_offset = Offset(part.base_offset + len(part.records))
        provenance = Provenance(self._next_offset, self._epoch, wall_ms)
        image = replace(part.image, provenance=provenance)
        self._index.advance(self.latest, image, part.delta)
        self._elections.observe(self._index, now_ms)
        pending = Pending(self._next_offset, image, part.delta)
        self._batches.append(_Batch(pending))
        self.latest = image
        output.proposals.append(Proposal(self._epoch, part.base_offset, tuple(part.records)))

    def _run_slice(self, output: Output, now_ms: int, wall_ms: int) -> None:
        """Run the next slice of the oldest sweep."""
        sweep, parked = self._sweeps[0]
        draft = self._draft()
        is_done = sweep_slice(draft, sweep, self._electorate())
        self._propose(draft, output, now_ms, wall_ms)
        if sweep.kind is SweepKind.CONTROLLED_SHUTDOWN:
            broker = self.latest.brokers.get(sweep.broker_id)
            if broker is not None:
                last_offset = Offset(self._next_offset - 1)
                self._liveness.extend_controlled_shutdown(broker, last_offset)
        if not is_done:
            return
        self._sweeps.popleft()
        if parked is not None and self._batches:
            self._batches[-1].parked.append(parked)
        elif parked is not None:
            self._answer(parked, parked.response, output)

    def _is_being_fenced(self, broker_id: NodeId) -> bool:
        return any(
            sweep.broker_id == broker_id and sweep.kind is SweepKind.FENCE
            for sweep, _ in self._sweeps
        )

    def _electorate(self) -> Electorate:
        image = self.latest
        if self._electorate_known is None or self._electorate_known[0] is not image.configs:
            defaults = partition_defaults(self._defaults.node_configs(image))
            self._electorate_known = (image.configs, Electorate(self._index, defaults))
        return self._electorate_known[1]
