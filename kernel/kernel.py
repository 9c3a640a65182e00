"""One whole node as a value: events in, effects out, no I/O but the synchronous writes of its disk.

Composition only: each part is documented in its own module. The path of a request is in
docs/architecture.md. Both drivers, node/ (asyncio) and simulator/ (virtual time), use this class.
"""

from collections.abc import Iterable
from uuid import UUID

from broker_publisher.metadata_cache import MetadataCache
from broker_publisher.publisher import Publisher, Publishers
from kernel import effects as out
from kernel.config import NodeConfig
from kernel.decoding import BYTES, Decoding
from kernel.events import (
    BytesReceived,
    ConnectionClosed,
    ConnectionOpened,
    ConnectionUsed,
    Event,
    FlushDone,
    LocalChangesDone,
    Now,
    PeerBytes,
    PeerConnected,
    PeerDisconnected,
    RareEvent,
    ReadAsked,
    ShutdownRequested,
    SnapshotDone,
    Started,
    TimeAdvanced,
)
from kernel.kraft_version import UnsupportedFeatureError
from kernel.lifecycle.broker_parts import BrokerIdentity, BrokerParts
from kernel.lifecycle.controller_link import ControllerLink
from kernel.lifecycle.controller_registration import ControllerRegistration
from kernel.opening import (
    OpenedStorage,
    addresses_of,
    controller_of,
    open_quorum,
    raft_core,
    voter_addresses,
)
from kernel.port import RecordsPort
from kernel.quorum.departure import Departure
from kernel.quorum.elections import Elections, log_fields, withheld
from kernel.quorum.linearizable_reads import LinearizableReads
from kernel.quorum.metadata_state import MetadataState, QuorumPort
from kernel.quorum.replica import Replica
from kernel.quorum.snapshots import Snapshots
from kernel.serving.auto_topics import AutoTopics
from kernel.serving.controller_requests import ControllerRequests
from kernel.serving.dispatch import BesideRecords, Dispatch, apis_of
from kernel.serving.dynamic_limits import DynamicLimits
from kernel.serving.forwarding import Forwarding
from kernel.serving.log_dirs import LogDirs
from metadata.delta import MetadataDelta
from metadata.features import unsupported
from metadata.image import Image
from network.clock import Clock
from network.connections import Connections, connection_rate
from network.peers import Peers
from network.timers import Timed
from raft import effects as raft
from raft import events as raft_events
from storage.vfs import Vfs
from wire.random_ids import random_uuid
from wire.types import DirectoryId, LeaderAndEpoch, Rng


class Kernel:
    """A node.

    Args:
        config: its settings.
        vfs: its disk.
        rng: its source of randomness, ids of topics and incarnations included.
        cluster_id: cluster id from meta.properties.
        directory_ids: id of every log directory, by path, from meta.properties.
        now: time at start.
        decoding: decoders that the driver chooses.
        port: to the records of this broker; None without, as in the simulator of metadata.

    Raises:
        CorruptLogError, CorruptFileError: the disk is damaged.
        UnsupportedFeatureError: names the finalized feature that is not supported.
    """

    def __init__(
        self,
        config: NodeConfig,
        vfs: Vfs,
        rng: Rng,
        *,
        cluster_id: str,
        directory_ids: dict[str, DirectoryId],
        now: Now,
        decoding: Decoding = BYTES,
        port: RecordsPort | None = None,
    ) -> None:
        assert port is None or config.is_broker, "only a broker has records"
        self.config = config
        self.cluster_id = cluster_id
        self._rng = rng
        self._effects: list[out.Effect] = []
        self._clock = Clock(now)
        self._timers = self._clock.timers
        self._is_started = False
        self._deadline_ms = now.monotonic_ms
        incarnation_id = UUID(bytes=self._new_uuid())
        opened = open_quorum(
            config,
            vfs,
            directory_ids.get(config.metadata_log_dir),
            self._clock,
            self._effects,
            installed=lambda loading: self.snapshots.load(loading),  # noqa: PLW0108 - made below
            guard=None if port is None else port.guard,
        )
        self._open_quorum(opened, vfs, rng, decoding)
        self.cache = MetadataCache()
        requests = ControllerRequests(
            config, cache=self.cache, state=self.state, replica=self.replica, clock=self._clock
        )
        link = ControllerLink(
            config.node_id, requests, self.peers, lambda: self.core.leader.leader_id
        )
        self.forwarding = Forwarding(link, self._clock)
        self.snapshots = Snapshots(
            config.metadata_log,
            self.loader,
            self.state,
            self.replica,
            log=self.log,
            files=self.snapshot_files,
            clock=self._clock,
            effects=self._effects,
        )
        identity = BrokerIdentity(cluster_id, directory_ids, incarnation_id, self._new_uuid)
        broker = self._broker_parts(vfs, identity, link, port) if config.is_broker else None
        self._broker = broker
        self.lifecycle = None if broker is None else broker.lifecycle
        self.folders = None if broker is None else broker.folders
        self.isr_expansion = None if broker is None else broker.isr_expansion
        self.registration: ControllerRegistration | None = None
        publishers: list[Publisher] = [self.cache, *(() if broker is None else broker.publishers)]
        if config.is_controller:
            self.registration = ControllerRegistration(config, incarnation_id, link, self._clock)
            publishers.append(self.registration)
        self.connections = self._serving(vfs, rng, directory_ids, requests, decoding, port)
        self.publishers = Publishers([*publishers, DynamicLimits(config, self.connections)])
        self._timed = self._timed_parts()
        self._check_image(self.loader.image)

    def _open_quorum(self, opened: OpenedStorage, vfs: Vfs, rng: Rng, decoding: Decoding) -> None:
        """Make the replica of the metadata log, its peers and the metadata state."""
        self.log = opened.log
        """The metadata log; only the replica writes it."""
        self.snapshot_files = opened.files
        self.writer = opened.writer
        """The durable half of the replica."""
        self.loader = opened.loader
        """Holder of the committed image; only the metadata state changes it."""
        config, cluster_id = self.config, self.cluster_id
        self.core = core = raft_core(config, cluster_id, opened, rng, self._clock.now_ms)
        """The raft core; only the replica steps it."""
        self.peers = Peers(
            addresses_of(core.config),
            config.node_id,
            self._clock,
            self._effects,
            lambda: core.leader,
            self._on_evidence,
            voters=lambda: voter_addresses(core),
            make_connection=decoding.client_connection,
        )
        self.replica = Replica(
            core,
            self.writer,
            snapshots=self.snapshot_files,
            reading=opened.reading,
            peers=self.peers,
            clock=self._clock,
            notified=self._on_notify,
        )
        self.elections = Elections(self._clock)
        self.departure = Departure(self.replica, self.peers, self._clock)
        self.state = MetadataState(
            self.loader,
            controller_of(config, cluster_id, vfs, rng, self._new_uuid),
            self.writer,
            self._clock,
            self._effects,
            quorum=QuorumPort(
                self.replica.propose, self.replica.raise_kraft_version, self.replica.quorum_facts
            ),
            publish=self._publish,
            read_batches=decoding.read_batches,
        )
        self.reads = LinearizableReads(self.replica, self.state, self._effects)

    def _timed_parts(self) -> tuple[Timed, ...]:
        """Return the parts with timers, in the order in which they tick."""
        busy = (self.peers, self.replica, self.state, self.forwarding, self.connections)
        timed = () if self._broker is None else self._broker.timed
        optional = (self.lifecycle, self.registration, *timed)
        present = (part for part in optional if part is not None)
        return (*busy, *present, self.snapshots, self.departure)

    def _serving(
        self,
        vfs: Vfs,
        rng: Rng,
        directory_ids: dict[str, DirectoryId],
        requests: ControllerRequests,
        decoding: Decoding,
        port: RecordsPort | None,
    ) -> Connections:
        """Make the connections of the listeners with their request dispatch."""
        dispatch = Dispatch(
            self.config,
            self.cluster_id,
            cache=self.cache,
            controller=requests,
            replica=self.replica,
            forwarding=self.forwarding,
            rng=rng,
            records=LogDirs(
                self.config.log_dirs,
                {identity: path for path, identity in directory_ids.items()},
                vfs.volume,
                dict if self.folders is None else self.folders.record_bytes,
            )
            if port is None
            else BesideRecords(port, self._auto_topics()),
        )
        connections = Connections(
            apis_of(port),
            self.config.controller_listener_names,
            self.config.connection_limits,
            self._clock,
            self._effects,
            dispatch.serve,
            address_rate=lambda host: connection_rate(self.cache.image, host),
            make_connection=decoding.server_connection,
        )
        connections.nanoseconds = decoding.nanoseconds
        return connections

    def _auto_topics(self) -> AutoTopics | None:
        """Make the creation of topics that clients ask for; None if it is disabled."""
        if not self.config.broker.auto_create_topics_enable:
            return None
        return AutoTopics(self.config, self.forwarding.forward, self._effects)

    def _broker_parts(
        self, vfs: Vfs, identity: BrokerIdentity, link: ControllerLink, port: RecordsPort | None
    ) -> BrokerParts:
        """Make the parts that only a broker has."""
        return BrokerParts(
            self.config,
            vfs,
            identity,
            port=port,
            link=link,
            clock=self._clock,
            effects=self._effects,
            on_shut_down=self._on_broker_shut_down,
        )

    # ---- the driver's side -------------------------------------------------------------------

    def start(self, now: Now) -> list[out.Effect]:
        """Run the first step, once the listeners are bound."""
        return self.steps([Started()], now)

    def step(self, event: Event, now: Now) -> list[out.Effect]:
        """Take one event and settle: a whole step."""
        effects = self.take((event,), now)
        effects += self.settle()
        return effects

    def steps(self, events: Iterable[Event], now: Now) -> list[out.Effect]:
        """Take events and settle: both halves of a step."""
        effects = self.take(events, now)
        effects += self.settle()
        return effects

    def take(self, events: Iterable[Event], now: Now) -> list[out.Effect]:
        """Take events in order, the first half of a step; their appends share a flush.

        Urgent effects are in this half: responses, fetches, the flush. `settle` must follow before
        a reaction to anything sent is taken; several takes may share it.
        """
        self._clock.set(now)
        for event in events:
            if type(event) is BytesReceived:  # exact types: a `match` tests each class in turn
                self.connections.received(event.connection_id, event.data)
            elif type(event) is PeerBytes:
                self.peers.on_bytes(event.peer_id, event.data)
            elif type(event) is FlushDone:
                self.replica.flush_done(event.token)
            elif type(event) is TimeAdvanced:
                self.replica.tick()
                self.replica.drain()  # appends stalled by a full disk come before new proposals
            elif type(event) is ReadAsked:
                self.reads.ask(event.token)
            else:
                self._take_rare(event)
        self.replica.drain()
        if self.writer.needs_flush:
            self.writer.plan_flush(self.core)
        effects = self._effects[:]
        self._effects.clear()
        return effects

    def settle(self) -> list[out.Effect]:
        """Run the second half of a step: publish commits, run due timers, set the deadline."""
        has_changed = self.state.has_unpublished and self.state.publish_committed()
        if has_changed:
            self.snapshots.on_commit()
        if not self.connections.serves_clients and self._is_metadata_current():
            self.connections.serve_clients()
            has_changed = True
        if has_changed:
            self.replica.drain()
        self.reads.answer_applied()
        self._deadline_ms = self._timers.first_ms()
        if self._deadline_ms <= self._clock.now_ms:
            self._tick()
            self.reads.answer_applied()
        if self.writer.needs_flush:
            self.writer.plan_flush(self.core)
        effects = self._effects[:]
        self._effects.clear()
        return effects

    def next_deadline_ms(self) -> int:
        """Return the latest time of the next TimeAdvanced."""
        return self._deadline_ms

    def close(self) -> None:
        """Close the log cleanly after `Exit` and the last flush, so that it needs no recovery.

        If the clean-shutdown files cannot be written, the next start is an unclean one.
        """
        self.log.close()
        if self._broker is not None:
            self._broker.close()

    @property
    def clean_log_dirs(self) -> frozenset[str]:
        """The log directories of a broker that the last process shut down cleanly."""
        return frozenset() if self._broker is None else self._broker.clean_log_dirs

    @property
    def is_unfenced(self) -> bool:
        """True if this broker is unfenced; without the broker role, if a leader is known."""
        if self.lifecycle is None:
            return self.core.leader.leader_id is not None
        return self.lifecycle.is_unfenced

    def _take_rare(self, event: RareEvent) -> None:
        """Take an event that is none of the frequent ones."""
        match event:
            case ConnectionOpened():
                self.connections.opened(event.connection_id, event.listener, event.client_host)
            case ConnectionUsed():
                self.connections.used(event.connection_id)
            case ConnectionClosed():
                self.connections.closed(event.connection_id)
            case PeerConnected():
                self.peers.on_connected(event.peer_id)
            case PeerDisconnected():
                self.peers.on_disconnected(event.peer_id, refused=event.refused)
            case LocalChangesDone():
                assert self.folders is not None, "only a broker has folders"
                self.folders.done(event.error)
            case SnapshotDone():
                self.snapshots.done(event.token)
            case ShutdownRequested():
                self._shut_down()
            case Started():
                self._start()
            case _:
                assert self._broker is not None, "only a broker has records"
                self._broker.take(event)

    def _is_metadata_current(self) -> bool:
        """True if the image is at the known high watermark and has an unfenced broker."""
        high_watermark = self.core.high_watermark
        image = self.cache.image
        return (
            high_watermark is not None
            and image.provenance.end_offset >= high_watermark
            and any(not broker.fenced for broker in image.brokers.values())
        )

    def _tick(self) -> None:
        """Run the timers that are due."""
        drain = self.replica.drain
        for part in self._timed:
            part.tick()
            drain()
        self._deadline_ms = self._timers.first_ms()

    def _start(self) -> None:
        assert not self._is_started, "a node starts once"
        self._is_started = True
        if self._broker is not None:
            self._broker.remove_clean_shutdown_files()
        self.snapshots.publish_loaded()
        is_full = self.writer.is_disk_full
        self.replica.enqueue(raft_events.DiskFull() if is_full else raft_events.TimeAdvanced())
        if self.lifecycle is not None:
            self.lifecycle.start()

    def _shut_down(self) -> None:
        self._effects.append(out.Log(out.LogLevel.INFO, "shutting_down"))
        if self.lifecycle is not None:
            self.lifecycle.request_shutdown()
        else:
            self._on_broker_shut_down()

    # ---- between the parts -------------------------------------------------------------------

    def _on_broker_shut_down(self) -> None:
        """Shut down the replica, once the broker has left."""
        self.departure.begin()

    def _on_evidence(self, lost: LeaderAndEpoch) -> None:
        assert lost.leader_id is not None
        fields = {"leader_id": lost.leader_id, "epoch": lost.epoch}
        self._effects.append(out.Log(out.LogLevel.INFO, "leader_unreachable", fields))
        event = raft_events.LeaderUnreachable(leader_id=lost.leader_id, epoch=lost.epoch)
        self.replica.enqueue(event)

    def _on_notify(self, effect: raft.NotifyEffect) -> None:
        match effect:
            case raft.HighWatermarkAdvanced():
                self.state.on_high_watermark(effect)
            case raft.LeaderChanged():
                self._on_leader_changed(effect)
            case raft.Claimed():
                self.state.on_claimed(effect)
                self._wake_callers()
            case raft.VotersAppended():
                self.state.on_voters_appended(effect)
            case raft.VoteWithheld():
                self._effects.append(withheld(effect))
            case raft.ReadIndexConfirmed():
                self.reads.on_confirmed(effect)
            case raft.ReadIndexRefused():
                self.reads.on_refused(effect)
            case raft.ShutdownComplete():
                self._effects.append(out.Exit(0, "shut down"))

    def _on_leader_changed(self, effect: raft.LeaderChanged) -> None:
        leader = effect.leader
        self._effects.append(out.Log(out.LogLevel.INFO, "leader_changed", log_fields(effect)))
        self.elections.on_leader_changed(effect)
        self.state.on_leader_changed(effect)
        if leader.leader_id is not None:
            self.peers.on_leader_changed(leader.leader_id)
        if leader.leader_id is not None and leader.leader_id != self.config.node_id:
            self._wake_callers()

    def _wake_callers(self) -> None:
        self.forwarding.on_leader_changed()
        if self.lifecycle is not None:
            self.lifecycle.on_leader_changed()

    def _publish(self, image: Image, delta: MetadataDelta) -> None:
        self.publishers.publish(image, delta)
        missing = self._unsupported(image) if delta.features else None
        if missing is not None:
            self._effects.append(out.Log(out.LogLevel.ERROR, "unsupported", {"error": missing}))
            self._effects.append(out.Exit(1, missing))

    def _check_image(self, image: Image) -> None:
        missing = self._unsupported(image)
        if missing is not None:
            raise UnsupportedFeatureError(missing)

    def _unsupported(self, image: Image) -> str | None:
        """Return the first finalized feature that this controller does not support, else None.

        A broker is refused at its registration instead.
        """
        missing = unsupported(image.features) if image.features else []
        return missing[0] if missing and self.config.is_controller else None

    def _new_uuid(self) -> bytes:
        return random_uuid(self._rng)
