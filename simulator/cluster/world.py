"""A cluster in one process: machines, network, clients, faults, and the checks of every step."""

from collections.abc import Callable
from typing import Final, get_args

from kernel import effects as out
from kernel import events
from kernel.config import NodeConfig
from kernel.decoding import Decoding
from kernel.lifecycle.broker_lifecycle import UNREGISTERED
from raft.roles import Role
from simulator.campaign.draw import Settings
from simulator.campaign.probes import Probes
from simulator.campaign.recording import Recording
from simulator.checks.invariants import Invariants
from simulator.checks.liveness.shutdown import why_still_there
from simulator.checks.metadata.decoded_batches import DecodedBatches
from simulator.checks.operations.clients import ClientChecks
from simulator.checks.operations.histories import Refuted
from simulator.checks.operations.proofs import Proofs
from simulator.checks.raft.core_tap import CoreTap
from simulator.checks.raft.log_mirror import segment_paths
from simulator.checks.raft.voters import VoterChecks
from simulator.checks.resources import ResourceChecks
from simulator.checks.violation import Violation
from simulator.cluster.client_choices import Choices, mix_of
from simulator.cluster.event_loop import EventLoop
from simulator.cluster.hand_over import HandOver
from simulator.cluster.instance_methods import replace_method
from simulator.cluster.linearizable_reads import LinearizableReads
from simulator.cluster.machine import Machine
from simulator.cluster.members import client_hosts, machine_ids, node_config
from simulator.cluster.network import Direction, Network, Pipe
from simulator.cluster.requests import Operation
from simulator.cluster.scheduler import Scheduler
from simulator.cluster.streams import Streams
from simulator.cluster.workload import Connection, Workload
from simulator.faults.buggify import Buggify
from simulator.faults.decision import Decision
from simulator.faults.disk_damage import DiskDamages
from simulator.faults.nemesis import Nemesis
from simulator.faults.network import requests_late_us
from simulator.faults.notes import FaultNotes
from storage.errors import CorruptFileError, CorruptLogError, OutOfSpaceError

BUSY_EVENTS_MAX: Final = 10_000
"""Limit for a virtual second of all nodes together; the busiest valid runs have a tenth of it."""
LOOKED_AT_EVERY_US: Final = 1_000_000
BEGIN_QUORUM_EPOCH: Final = 53
API_KEY_AT: Final = 5
"""Low byte of the api key in a request of one frame; in a response it is part of its id."""
EVENT_NUMBERS: Final[dict[type, int]] = {
    kind: number for number, kind in enumerate((type(None), *get_args(events.Event)))
}
Traced = Callable[[int, str], None]


class World:
    """Everything of one run.

    Args:
        settings: what the seed decided.
        plan: the faults; the caller draws it, so that a part of it can be tried.
        trace: called with the time in microseconds and the text of every line of the trace.
        recording: keeps what the page of the run needs.
    """

    machine_type: type[Machine] = Machine

    def __init__(
        self,
        settings: Settings,
        streams: Streams,
        plan: list[Decision],
        trace: Traced | None = None,
        recording: Recording | None = None,
    ) -> None:
        self.settings = settings
        self.streams = streams
        self.recording = recording
        self.scheduler = Scheduler()
        self.probes = Probes()
        self.event_count = 0
        self._busy_at = BUSY_EVENTS_MAX
        self._busy_since_us = 0
        self._counts: dict[type, int] = dict.fromkeys(EVENT_NUMBERS, 0)
        self.digest = 0
        self.verdict: str | None = None
        """Verdict on the clients' history, once it was judged."""
        self.refuted: Refuted | None = None
        """The history of the run, if it is not linearizable."""
        self.sent_again: dict[int, list[int]] = {}
        """Node -> times when it was about to send a request to a controller once more."""
        self._decoded = DecodedBatches()
        self._hand_over = HandOver() if settings.hands_over else None
        self._notes = FaultNotes(self.scheduler, trace, recording)
        self._disk = streams.stream("disk")
        self._late = streams.stream("late")
        self._log_bytes = 0
        self.network = Network(
            self.scheduler, streams.stream("network"), settings.delay_us, settings.delay_mean_us
        )
        self.voters = frozenset(range(1, settings.voter_count + 1))
        self.machines = {number: self._machine(number, streams) for number in machine_ids(settings)}
        self.invariants = Invariants(self.machines, self.voters, self.probes)
        self.ledger = self.invariants.ledger
        self._voter_checks = VoterChecks(self.voters, self.ledger)
        self._client_checks = ClientChecks(self.ledger.writes, settings.partition_count)
        self.resources = ResourceChecks(self.machines, self.invariants.mirrors)
        self._roles: dict[int, Role | None] = dict.fromkeys(self.machines)
        self._look_us = dict.fromkeys(self.machines, 0)
        """Time of the next look at voters and resources of a node, whatever its role."""
        self._tap = CoreTap(self.ledger, self.probes)
        self._damages = DiskDamages(
            self.machines,
            self.voters,
            self.invariants.mirrors,
            lambda: self.ledger.end_offset,
            self.probes,
        )
        self.nemesis = self._nemesis(plan)
        self._buggify = Buggify(settings, self.probes, lambda: self.nemesis.is_over)
        self._set_sites()
        if recording is not None:
            self.network.on_sent = self._on_sent
        self.workload = self._workload(streams)
        if recording is not None:
            recording.operations = self.workload.history
        if trace is not None:
            self._tap.note = self.workload.note = self._notes.note

    def _nemesis(self, plan: list[Decision]) -> Nemesis:
        nemesis = Nemesis(
            plan,
            self.scheduler,
            self.network,
            self.machines,
            self.probes,
            self.restart,
            damages=self._damages,
            client_hosts=client_hosts(self.settings),
        )
        self._notes.listen_to(nemesis)
        nemesis.on_wiped = lambda machine: self.invariants.forget(machine.id)
        return nemesis

    def _workload(self, streams: Streams) -> Workload:
        settings = self.settings
        brokers = tuple(m.id for m in self.machines.values() if m.config.is_broker)
        workload = Workload(
            streams.stream("workload"),
            self.network,
            self.scheduler,
            targets=brokers,
            accept=self._open_client,
            on_acknowledged=self._on_acknowledged,
            settings=settings,
        )
        workload.late_us = requests_late_us(self.nemesis.plan)
        workload.elections = lambda: self.invariants.elections
        if settings.has_lookups:
            workload.choices = Choices(streams.stream("clients"), brokers, mix_of(settings))
            workload.proofs = Proofs(self.machines, self.invariants)
        if settings.has_linearizable_reads:
            rng = streams.stream("linearizable_reads/clients")
            reads = LinearizableReads(self.machines, self.scheduler, rng)
            workload.linearizable_reads = reads
        return workload

    def _config(self, number: int) -> NodeConfig:
        return node_config(self.settings, number)

    def _machine(self, number: int, streams: Streams) -> Machine:
        clocks = streams.stream("clocks")
        machine = self.machine_type(
            self._config(number),
            self.scheduler,
            self.network,
            rng=streams.stream(f"nodes/{number}"),
            watcher=self,
            flush_us=lambda: self._flush_us(number),
            reported_late_us=self._reported_late_us,
            decoding=self._decoding(),
        )
        machine.find_machine = lambda host: self.machines[host]
        rate = self.settings.clock_rate_ppm_max
        machine.clock_rate_ppm = clocks.randrange(-rate, rate + 1) if rate else 0
        machine.clock_offset_ms = clocks.randrange(1_000_000)
        return machine

    def _decoding(self) -> Decoding:
        """Decode a batch once for all nodes; hand bodies over in memory where the seed says so."""
        if self._hand_over is None:
            return Decoding(read_batches=self._decoded)
        return Decoding(
            read_batches=self._decoded,
            server_connection=self._hand_over.server_connection,
            client_connection=self._hand_over.client_connection,
        )

    def _set_sites(self) -> None:
        """Set up legal but unlikely behaviour, as far as the seed has it."""
        settings = self.settings
        for machine in self.machines.values():
            machine.make_random = self._buggify.random
            if settings.has_event_loops:
                machine.take = self._event_loop(machine).post
        if settings.begin_epoch_late_us:
            self.network.extra_delay_us = self._begin_epoch_late_us

    def _event_loop(self, machine: Machine) -> EventLoop:
        return EventLoop(
            machine,
            self.settings,
            self.streams.stream("turns"),
            disks=self.streams.stream("quick_disks"),
            is_over=lambda: self.nemesis.is_over,
            invariants=self.invariants,
            probes=self.probes,
        )

    def _flush_us(self, number: int) -> int:
        settings = self.settings
        duration = settings.flush_us + int(self._disk.expovariate(1.0) * settings.flush_mean_us)
        return duration * self.nemesis.flush_factor(number)

    def _reported_late_us(self) -> int:
        mean_us = self.settings.flush_reported_late_us
        if not mean_us or self.nemesis.is_over:
            return 0
        self.probes.hit("flush_reported_late")
        return int(self._late.expovariate(1.0) * mean_us)

    def _begin_epoch_late_us(self, data: bytes) -> int:
        if data[API_KEY_AT] != BEGIN_QUORUM_EPOCH or self.nemesis.is_over:
            return 0
        self.probes.hit("begin_epoch_late")
        return int(self._late.expovariate(1.0) * self.settings.begin_epoch_late_us)

    def _open_client(self, connection: Connection) -> Pipe:
        target = self.machines[connection.target]
        return self.network.connect(
            connection, target.id, lambda pipe: target.accept(pipe, "PLAINTEXT")
        )

    # ---- the run -----------------------------------------------------------------------------

    def start(self) -> None:
        """Start all machines at once, the faults and the clients."""
        for machine in self.machines.values():
            machine.start()
        self.nemesis.start()
        self.workload.start()

    def restart(self, machine: Machine) -> None:
        """Start a process where none runs."""
        if not machine.is_up:
            machine.vfs.crash_at = None
            machine.start()

    def run(self, end_us: int) -> None:
        """Run until a time."""
        self.scheduler.run(end_us)

    def run_until(self, condition: Callable[[], bool], end_us: int, every: int = 1) -> bool:
        """Run until a condition holds, asked every so many events; False if time runs out first."""
        while not condition():
            if not self.scheduler.run(end_us, every):
                return condition()
        return True

    def check_resources_at_rest(self) -> None:
        """Check I19 when all is quiet.

        Raises:
            Violation: something is still held.
        """
        for machine in self.machines.values():
            large = self.resources.broken_at_rest(machine)
            if large is not None:
                raise Violation("I19", f"node {machine.id}: {large}")

    def check_shutdowns(self) -> None:
        """Check that a process asked to shut down ends in bounded time (checks/shutdown.py).

        Raises:
            Violation: a process does not.
        """
        late = next(filter(None, map(why_still_there, self.machines.values())), None)
        if late is not None:
            raise Violation("liveness", late)

    def check_clients(self) -> None:
        """Check I12 at the end of the run.

        Raises:
            Violation: an operation that certainly failed is committed.
        """
        wrong = self._client_checks.failed_but_committed(self.workload.history, self.sent_again)
        if wrong is not None:
            raise Violation("I12", wrong)

    # ---- watching ----------------------------------------------------------------------------

    def created(self, machine: Machine) -> None:
        """Watch the raft core of a new process."""
        assert machine.kernel is not None
        self.invariants.created(machine)
        core = machine.kernel.core
        self._tap.attach(machine.id, core)
        self._buggify.attach(machine.id, core)
        self._note_sent_again(machine)

    def _note_sent_again(self, machine: Machine) -> None:
        assert machine.kernel is not None
        forwarding, times_us = machine.kernel.forwarding, self.sent_again.setdefault(machine.id, [])
        # The only sign of a further attempt: Forwarding counts none, for only a judge needs them.
        again: Callable[..., None] = forwarding._again  # noqa: SLF001

        def noted(*given: object) -> None:
            times_us.append(self.scheduler.now_us)
            again(*given)

        replace_method(forwarding, "_again", noted)

    def before_step(self, machine: Machine, event: events.Event | None) -> None:
        """Count a step.

        Raises:
            Violation: nodes send each other the same for ever, without a pause.
        """
        self.event_count += 1
        if self.event_count >= self._busy_at:
            self._look_for_a_busy_loop()
        if type(event) is events.ConnectionClosed:
            machine.note_closed(event.connection_id)
        self._counts[type(event)] += 1
        if event is None:
            self._log_bytes = log_bytes(machine)
            self.invariants.starting(machine)

    @property
    def events_by_kind(self) -> dict[str, int]:
        """Number of steps of nodes, by the name of the event; "Start" for a new process."""
        counts = {kind.__name__: count for kind, count in self._counts.items() if count}
        return {"Start": counts.pop("NoneType")} | counts if "NoneType" in counts else counts

    def _look_for_a_busy_loop(self) -> None:
        now_us = self.scheduler.now_us
        if now_us - self._busy_since_us < 1_000_000:
            raise Violation("liveness", f"{BUSY_EVENTS_MAX} events within a second: a busy loop")
        self._busy_at = self.event_count + BUSY_EVENTS_MAX
        self._busy_since_us = now_us

    def after_step(
        self, machine: Machine, event: events.Event | None, effects: list[out.Effect]
    ) -> None:
        """Check the invariants on the node that was stepped, and add the step to the digest."""
        if event is None and (wrong := self._damages.wrong_with_start(machine)) is not None:
            raise Violation("I18", f"node {machine.id}: {wrong}")
        if self._tap.broken is not None:
            raise Violation(self._tap.broken[0], f"node {machine.id}: {self._tap.broken[1]}")
        self.invariants.after_step(machine, event)
        raft = machine.raft
        assert raft is not None
        role, number = raft.role, machine.id
        now_us = self.scheduler.now_us
        if role is not self._roles[number] or self._look_us[number] <= now_us:
            self._look_at(machine)
        high_watermark = raft.high_watermark
        step = (
            self.digest,
            now_us,
            number,
            EVENT_NUMBERS[type(event)],
            role.epoch,
            raft.log.end_offset,
            -1 if high_watermark is None else high_watermark,
            len(effects),
        )
        self.digest = hash(step) & 0xFFFFFFFF  # of numbers alone: the same in every process
        if event is None and log_bytes(machine) < self._log_bytes:
            self.probes.hit("torn_tail_repaired")
        assert machine.kernel is not None
        if machine.vfs.bytes_max is not None and machine.kernel.writer.is_disk_full:
            self.probes.hit("disk_full")
        for effect in effects:
            if type(effect) is out.Log:
                self._on_log(machine, effect)
        if self.recording is not None:
            self.recording.after_step(now_us, number, machine.kernel.core)

    def _look_at(self, machine: Machine) -> None:
        """Check I15 at a new role; I15, shutdowns and I19 once a second."""
        assert machine.kernel is not None
        core = machine.kernel.core
        number, now_us = machine.id, self.scheduler.now_us
        if self._roles[number] is not core.role:
            self._roles[number] = core.role
            self.nemesis.note_role_change()
        strange = self._voter_checks.broken(machine, core)
        if strange is not None:
            raise Violation("I15", f"node {number}: {strange}")
        if self._look_us[number] > now_us:
            return
        self._look_us[number] = now_us + LOOKED_AT_EVERY_US
        self.check_shutdowns()
        large = self.resources.broken(machine)
        if large is not None:
            raise Violation("I19", f"node {number}: {large}")

    def process_ended(self, machine: Machine, reason: str, error: BaseException | None) -> None:
        """Note the end; an error that no fault explains is a violation."""
        self._notes.note(f"node {machine.id}: {reason}")
        self.invariants.process_ended(machine)
        if self.recording is not None:
            self.recording.ended(self.scheduler.now_us, machine.id, reason)
        if "operation" in reason:
            how = "killed" if reason.startswith("killed") else "crashed"
            self.probes.hit(f"{how}_between_disk_operations")
        is_full = isinstance(error, OutOfSpaceError) and machine.vfs.bytes_max is not None
        if error is None or "injected" in str(error) or is_full:
            self._damages.process_ended(machine)
            if "sync" in str(error):
                self.probes.hit("node_stopped_by_sync_error")
            if "into write" in str(error) or "into truncate" in str(error):
                self.probes.hit("node_stopped_by_write_error")
            return
        if not isinstance(error, CorruptLogError | CorruptFileError):
            invariant = "liveness" if UNREGISTERED in reason else "I20"
            raise Violation(invariant, f"node {machine.id} {reason}") from error
        wrong = self._damages.wrong_with_stop(machine, error)
        if wrong is not None:
            raise Violation("I18", f"node {machine.id} {reason}; {wrong}") from error

    def _on_log(self, machine: Machine, log: out.Log) -> None:
        if log.event == "fetched_batches_refused" and "CRC" in str(log.fields["reason"]):
            raise Violation("I18", f"node {machine.id} was sent damage: {log.fields['reason']}")
        mark = MARK_OF_LOG.get(log.event)
        if mark is not None:
            self.probes.hit(mark)
        if self._notes.is_traced and log.event != "leader_changed":  # the roles tell it
            fields = " ".join(f"{name}={value}" for name, value in log.fields.items())
            self._notes.note(f"node {machine.id}: {log.event} {fields}".rstrip())

    def _on_acknowledged(self, operation: Operation) -> None:
        wrong = self._client_checks.on_acknowledged(operation)
        if wrong is not None:
            raise Violation("I12", wrong)
        kernel = self.machines[operation.target].kernel
        if kernel is not None and not kernel.state.is_active:
            self.probes.hit("request_forwarded")

    def _on_sent(self, pipe: Pipe, direction: Direction, due_us: int, data: bytes) -> None:
        assert self.recording is not None
        self.recording.sent(self.scheduler.now_us, pipe, direction, due_us, data)


MARK_OF_LOG: Final = {
    "leader_unreachable": "evidence",
    "vote_withheld": "vote_withheld",
}
"""Probe marks by the event of a node's own log line."""


def log_bytes(machine: Machine) -> int:
    """Bytes of all segments of a machine's metadata log."""
    vfs = machine.vfs
    return sum(vfs.size(path) for path in segment_paths(vfs))
