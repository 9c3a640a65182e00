"""The controller of this node between raft and the metadata: activation, proposals, commits.

It owns the loader, because on a leader the committed image is the one that the controller computed
(`adopt`), and on any other node the one that the stored records build.
"""

from collections.abc import Callable
from typing import Final

import msgspec
from msgspec.structs import replace

from kernel.decoding import ReadBatches
from kernel.effects import Effect, Log, LogLevel
from kernel.quorum.log_writer import LogWriter
from kernel.quorum.replies import Replies
from metadata import record_codec
from metadata.delta import MetadataDelta, delta_between, sum_of
from metadata.features import record_version
from metadata.image import EMPTY, Image, Provenance
from metadata.loader import Loader
from metadata.snapshot_loading import SnapshotLoading
from network.clock import Clock
from network.peers import Answered
from network.timers import CONTROLLER, NEVER_MS
from quorum_controller.controller import Controller
from quorum_controller.result import ControllerRequest, Output, Pending, Proposal, RequestContext
from quorum_controller.services import QuorumFacts
from raft import effects as raft
from wire.api_keys import UPDATE_FEATURES
from wire.types import LeaderEpoch, Offset

READ_BYTES_MAX: Final = 4 * 1024 * 1024
"""Limit of one read of the log while committed records are applied."""


class QuorumPort(msgspec.Struct, frozen=True):
    """Requests of the controller to raft, dropped if the epoch is over by then; and questions."""

    propose: Callable[[LeaderEpoch, tuple[bytes, ...]], None]
    """Propose values in an epoch."""
    raise_kraft_version: Callable[[LeaderEpoch, int], None]
    """Raise the level in an epoch, behind the proposals so far."""
    facts: Callable[[], QuorumFacts]
    """Return level and voters."""


class MetadataState:
    """The committed image of a node, and its controller if it has that role."""

    def __init__(
        self,
        loader: Loader,
        controller: Controller | None,
        writer: LogWriter,
        clock: Clock,
        effects: list[Effect],
        *,
        quorum: QuorumPort,
        publish: Callable[[Image, MetadataDelta], None],
        read_batches: ReadBatches,
    ) -> None:
        self._loader = loader
        self.controller = controller
        self._writer = writer
        self._log = writer.log
        self._quorum = quorum
        self._clock = clock
        self._timers = clock.timers
        self._effects = effects
        self._publish = publish
        self._replies = Replies()
        self._adopted: list[tuple[Pending, Provenance]] = []
        """Committed and answered, but not yet adopted by the loader; oldest first."""
        self._committed_end_offset = loader.end_offset
        self.has_unpublished = True
        """False if `publish_committed` would have nothing to do."""
        self.snapshots_loaded = 0
        """Snapshots loaded since the start, the one found at start included."""
        self._read_batches = read_batches

    # ---- requests ----------------------------------------------------------------------------

    @property
    def applied_end_offset(self) -> Offset:
        """End (exclusive) of the records that the committed image holds."""
        return self._loader.end_offset

    @property
    def is_active(self) -> bool:
        """True if this node is the active controller."""
        return self.controller is not None and self.controller.is_active

    def submit(
        self, api_key: int, body: object, answered: Answered, context: RequestContext
    ) -> None:
        """Submit a request to the controller of this node, active or not."""
        assert self.controller is not None, "this node is no controller"
        if api_key == UPDATE_FEATURES:
            self.controller.quorum = self._quorum.facts()
        token = self._replies.expect(answered)
        request = ControllerRequest(
            api_key=api_key,
            body=body,
            reply_token=token,
            context=context,
        )
        self._take(self.controller.submit(request, self._clock.now_ms, self._clock.wall_ms))

    def tick(self) -> None:
        """Run the timers of the active controller."""
        now_ms = self._clock.now_ms
        if self._timers.at_ms[CONTROLLER] <= now_ms:
            assert self.controller is not None, "only a controller is due"
            self._take(self.controller.tick(now_ms, self._clock.wall_ms))

    def _take(self, output: Output) -> None:
        """Set the deadline of the controller after a call; propose its records, send responses."""
        assert self.controller is not None, "its output"
        due_ms = self.controller.next_deadline_ms()
        self._timers.at_ms[CONTROLLER] = NEVER_MS if due_ms is None else due_ms
        if output.kraft_version is not None:
            assert self.controller.epoch is not None, "only an active controller raises it"
            self._quorum.raise_kraft_version(self.controller.epoch, output.kraft_version)
        for proposal in output.proposals:
            self._propose(proposal)
        for answer in output.answers:
            assert isinstance(answer.reply_token, int)
            self._replies.answer(answer.reply_token, answer.body)

    def _propose(self, proposal: Proposal) -> None:
        assert self.controller is not None
        level = self.controller.latest.metadata_version
        values = tuple(
            record_codec.encode(record, record_version(record, level))
            for record in proposal.records
        )
        self._quorum.propose(proposal.epoch, values)

    # ---- notifications of raft ---------------------------------------------------------------

    def on_leader_changed(self, effect: raft.LeaderChanged) -> None:
        """Resign the controller, dropping uncommitted changes, if it no longer leads the epoch."""
        controller = self.controller
        if controller is None:
            return
        if effect.leader.leader_id != controller.config.node_id:
            self._writer.forget_timestamps()
        controller.known_leader_id = effect.leader.leader_id
        if (controller.is_active and effect.leader.epoch != controller.epoch) or (
            controller.is_active and effect.leader.leader_id is None
        ):
            self._resign()

    def _resign(self) -> None:
        assert self.controller is not None
        fields = {"epoch": self.controller.epoch}
        self._effects.append(Log(LogLevel.INFO, "controller_resigned", fields))
        self._take(self.controller.resign())

    def on_claimed(self, effect: raft.Claimed) -> None:
        """Activate the controller: this node leads and its epoch's start is committed."""
        controller = self.controller
        assert controller is not None, "only a controller can be elected"
        assert not controller.is_active, f"{controller.epoch=}"
        self.publish_committed()
        self._apply_from_log(effect.end_offset)
        assert self._loader.end_offset == effect.end_offset, f"{self._loader.end_offset=} {effect=}"
        has_open_transaction = self._loader.transaction_start is not None
        fields = {"epoch": effect.epoch, "log_end_offset": effect.end_offset}
        self._effects.append(Log(LogLevel.INFO, "controller_activated", fields))
        output = controller.activate(
            effect.epoch,
            effect.end_offset,
            self._loader.image,
            self._clock.now_ms,
            self._clock.wall_ms,
            has_open_transaction=has_open_transaction,
        )
        self._take(output)

    def on_voters_appended(self, effect: raft.VotersAppended) -> None:
        """Let the controller go on behind a record that is not its own."""
        controller = self.controller
        assert controller is not None, "only a controller can be elected"
        if controller.is_active:
            assert controller.epoch == effect.epoch, f"{controller.epoch=} {effect=}"
            controller.skip(effect.base_offset, effect.end_offset)

    def on_high_watermark(self, effect: raft.HighWatermarkAdvanced) -> None:
        """Commit pending changes and answer their requests; `publish_committed` comes later."""
        self._committed_end_offset = effect.high_watermark
        self.has_unpublished = True
        if not self.is_active:
            return
        assert self.controller is not None
        epoch = self.controller.epoch
        assert epoch is not None
        committed, output = self.controller.commit(effect.high_watermark)
        timestamp_ms_of = self._writer.timestamp_ms_of
        for pending in committed:
            end_offset = pending.end_offset
            provenance = Provenance(end_offset, epoch, timestamp_ms_of(end_offset))
            self._adopted.append((pending, provenance))
        self._take(output)

    def publish_committed(self) -> bool:
        """Bring image and publishers up to the high watermark; True if there was anything to do.

        The leader adopts the images that it computed, any other node applies the stored records;
        both publish changes that were committed together as one delta. Responses sent before may be
        newer than the published image, but the next request arrives only after its publication.
        """
        if not self._adopted and self._loader.end_offset >= self._committed_end_offset:
            self.has_unpublished = False
            return False
        adopted, self._adopted = self._adopted, []
        if adopted:
            newest, provenance = adopted[-1]  # its image holds all of them
            image = replace(newest.image, provenance=provenance)
            delta = sum_of([pending.delta for pending, _ in adopted])
            self._publish(*self._loader.adopt(image, delta))
        self._apply_from_log(self._committed_end_offset)
        self.has_unpublished = self._loader.end_offset < self._committed_end_offset
        return True

    def _apply_from_log(self, high_watermark: Offset) -> None:
        while (start := self._loader.end_offset) < high_watermark:
            content = self._log.read(start, READ_BYTES_MAX, high_watermark)
            if not content:
                break
            for image, delta in self._loader.commit(self._read_batches(content)):
                self._publish(image, delta)
            assert self._loader.end_offset > start, f"no progress from {start=}"

    # ---- snapshots ---------------------------------------------------------------------------

    def load_snapshot(self, loading: SnapshotLoading) -> None:
        """Replace the committed image by a fetched snapshot; a leader never fetches one."""
        assert not self.is_active, "an active controller loads no snapshot"
        self.snapshots_loaded += 1
        self.has_unpublished = True
        self._adopted.clear()  # what was not published yet is in the snapshot
        self._publish(*self._loader.adopt(*loading.result(self._loader.image)))

    def publish_whole(self, image: Image) -> None:
        """Publish the image of the newest snapshot at start, with everything in it as new."""
        self.snapshots_loaded += 1
        self._publish(image, delta_between(EMPTY, image))
