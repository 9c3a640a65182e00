# ruff: noqa: SLF001 - at every step a property costs more than the field behind it
"""The named invariants, checked after each step on the node that took it.

They read the disk and the world from outside (log_mirror.py, ledger.py), and of a node's own state
role, epoch, vote, high watermark and image. Names are those of docs/invariants.md; `I1` to `I20`
never change, a violation prints its name.
"""

from kernel import events
from kernel.kernel import Kernel
from kernel.quorum.metadata_state import MetadataState
from metadata.image import Image
from raft.core import RaftCore
from raft.roles import Candidate, Follower, Leader, Resigned, Role, Unattached
from simulator.campaign.probes import Probes
from simulator.checks.metadata.application import LoaderWatch
from simulator.checks.metadata.controllers import ControllerChecks
from simulator.checks.metadata.image_equality import image_difference
from simulator.checks.metadata.ledger import Ledger
from simulator.checks.metadata.publications import PublicationWatch
from simulator.checks.metadata.snapshots import SnapshotChecks
from simulator.checks.node_past import Past, Shown
from simulator.checks.raft.log_mirror import Entry, LogMirror, damaged_batch, written_end
from simulator.checks.raft.replication import ReplicationChecks
from simulator.checks.raft.roles import probe_role
from simulator.checks.raft.votes import VoteChecks
from simulator.checks.raft.wiped_voters import WipedVoters
from simulator.checks.violation import Violation
from simulator.cluster.machine import Machine


class Invariants:
    """Checker of all invariants for a whole run."""

    def __init__(
        self, machines: dict[int, Machine], voters: frozenset[int], probes: Probes
    ) -> None:
        self.ledger = Ledger()
        self.mirrors = {number: LogMirror() for number in machines}
        self._machines = machines
        self._voters = voters
        self._probes = probes
        self._past = {number: Past() for number in machines}
        self._leaders: dict[int, int] = {}
        self._active: dict[int, int] = {}
        self._snapshots = SnapshotChecks(self.ledger, probes)
        self._vote_checks = VoteChecks(machines, self.mirrors, voters)
        self._replication = ReplicationChecks(machines, self.mirrors, voters)
        self._controllers = ControllerChecks(self.ledger)
        self._publications: dict[int, PublicationWatch] = {}
        self._loaders: dict[int, LoaderWatch] = {}
        self._equal: dict[int, tuple[Image, Image]] = {}
        """Node -> image that it published last, and the oracle's image, which was equal."""
        self._wiped = WipedVoters(machines, probes)
        self.elections = 0

    def starting(self, machine: Machine) -> None:
        """Note the disk that a process is about to read."""
        self._vote_checks.starting(machine)

    def created(self, machine: Machine) -> None:
        """Check the first role of a new process, and watch what it does from now on."""
        kernel = machine.kernel
        assert kernel is not None
        watch = self._publications[machine.id] = PublicationWatch()
        kernel.publishers.add(watch)
        self._loaders[machine.id] = LoaderWatch(kernel.loader)
        self._controllers.created(machine)
        wrong = self._vote_checks.created(machine)
        if wrong is not None:
            self._fail("I16", machine, wrong)

    # ---- one step ------------------------------------------------------------------------------

    def after_step(self, machine: Machine, event: events.Event | None) -> None:
        """Check what this step may have changed.

        Raises:
            Violation: an invariant is broken.
        """
        kernel, raft, vfs = machine.kernel, machine.raft, machine.vfs
        assert kernel is not None
        assert raft is not None
        past = self._past[machine.id]
        if event is None or past.incarnation != machine.incarnation:
            past = self._started(machine, kernel)
        role, log, state = raft.role, raft.log, kernel.state
        shown = (
            role.epoch,
            type(role),
            role.leader_id,
            None if type(role) is Leader else role.voted_key,
            kernel.log.end_offset,
            log.generation,
            log.start_offset,
            vfs.log_changes,
            raft.high_watermark,
            kernel.loader._latest.provenance.end_offset,
        )
        if shown != past.shown:
            self._on_change(machine, kernel, past, shown)
            past.shown = shown
        controller = state.controller
        if controller is not None and (controller._epoch is not None or past.was_active):
            self._on_controller(machine, state, past, role)
        broken = None
        if type(role) is Leader:
            broken = self._replication.broken(machine, role)
        if vfs.name_changes != past.name_changes:
            past.name_changes = vfs.name_changes
            broken = broken or self._snapshots.broken(machine, log.start_offset)
        if broken is not None:
            self._fail(broken[0], machine, broken[1])

    def _on_change(self, machine: Machine, kernel: Kernel, past: Past, shown: Shown) -> None:
        """Check the parts of a node's shown state that changed since the step before."""
        epoch, kind, leader_id, voted, written_end, *of_log, high_watermark, applied = shown
        core = kernel.core
        voted_id = None if voted is None else int(voted.id)
        has_new_role = (epoch, kind, leader_id, voted_id) != (
            past.epoch,
            past.role,
            past.leader_id,
            past.voted_id,
        )
        if has_new_role:
            self._on_role(machine, core, past, voted_id)
        log_before = [past.generation, past.log_start, past.log_changes]
        if written_end != past.log_end or of_log != log_before:
            fresh = self._on_log(machine, core, past, written_end)
            if not has_new_role:
                self._check_appended(machine, core, fresh)
        if high_watermark != past.high_watermark and high_watermark is not None:
            self._on_high_watermark(machine, core, past)
        if applied != past.applied:
            self._on_applied(machine, kernel, past, applied)

    def _check_appended(self, machine: Machine, core: RaftCore, fresh: list[Entry]) -> None:
        why = self._replication.wrongly_appended(machine, core, fresh)
        if why is not None:
            self._fail("I6", machine, why)

    def highest_epoch(self, number: int) -> int:
        """Newest epoch that a node was ever seen in."""
        return self._past[number].highest_epoch

    @property
    def reign_count(self) -> int:
        """Number of epochs that ever had an active controller."""
        return len(self._active)

    def process_ended(self, machine: Machine) -> None:
        """Note what the disk of an ended process has for certain."""
        past = self._past[machine.id]
        mirror = self.mirrors[machine.id]
        mirror.forget_durable()
        past.durable_end = mirror.durable_end(machine.vfs)
        if machine.was_killed_in_a_step and mirror.frozen_end is None:
            past.durable_end = min(past.durable_end, written_end(machine.vfs))  # a cut stays

    def forget(self, number: int) -> None:
        """Forget the history of a node that got an empty disk."""
        self._past[number] = Past()
        self.mirrors[number] = LogMirror()
        self._vote_checks.forget(number)
        if number in self._voters:
            self._wiped.add(number)

    # ---- start ---------------------------------------------------------------------------------

    def _started(self, machine: Machine, kernel: Kernel) -> Past:
        """Check what a restart finds: I2, I3, I6, I16, I18."""
        before = self._past[machine.id]
        core = kernel.core
        mirror = self.mirrors[machine.id]
        mirror.forget_durable()
        registered = mirror.entries
        entries = mirror.reread(machine.vfs)
        damage = damaged_batch(machine.vfs, mirror.sound)
        if damage is not None:
            self._fail("I18", machine, damage)
        if mirror.end_offset < before.durable_end and core.log_start_offset < before.durable_end:
            self._fail(
                "I18",
                machine,
                f"the log ended durably at {before.durable_end} and ends at {mirror.end_offset} "
                "after a restart",
            )
        log_end = kernel.log.end_offset
        if mirror.end_offset != log_end and entries:
            self._fail("I18", machine, f"files end at {mirror.end_offset}, its log at {log_end}")
        self._register_others(machine, entries, registered)
        if core.epoch < before.highest_epoch and before.incarnation >= 0:
            self._fail("I2", machine, f"epoch {core.epoch} after {before.highest_epoch}")
        past = Past(
            incarnation=machine.incarnation,
            highest_epoch=before.highest_epoch,
            log_end=log_end,
            log_start=core.log_start_offset,
            generation=core.log_generation,
            log_changes=machine.vfs.log_changes,
            applied=kernel.loader.end_offset,
            epoch=-1,
        )
        self._past[machine.id] = past
        lost = self._vote_checks.started(machine, core)
        if lost is not None:
            self._fail("I3", machine, lost)
        if core.leader.leader_id == machine.id and type(core.role) is not Resigned:
            is_alone = len(self._voters) == 1
            if not (is_alone and core.is_leader):
                self._fail("I16", machine, f"it restarts as {type(core.role).__name__} of itself")
        return past

    # ---- roles: I1 I2 I3 I4 I7 I16 -------------------------------------------------------------

    def _on_role(self, machine: Machine, core: RaftCore, past: Past, voted_id: int | None) -> None:
        role, epoch = core.role, core.epoch
        leader_id = None if role.leader_id is None else int(role.leader_id)
        if epoch < past.highest_epoch:
            self._fail("I2", machine, f"epoch {epoch} after {past.highest_epoch}")
        if leader_id is not None:
            known = self._leaders.setdefault(epoch, leader_id)
            if known != leader_id:
                self._fail("I1", machine, f"epoch {epoch} is led by {known} and by {leader_id}")
        self._check_role(machine, core, past)
        is_new = past.epoch >= 0 and (epoch, voted_id) != (past.epoch, past.voted_id)
        why = self._vote_checks.broken(machine, core, is_new=is_new)
        if why is not None:
            self._fail(why[0], machine, why[1])
        if type(role) is Leader and (past.role is not Leader or past.epoch != epoch):
            self._on_elected(machine, core)
        probe_role(self._probes, role, past, epoch)
        self._replication.note_epoch(machine.id, epoch)
        if type(role) is Leader:
            past.led_epoch = epoch
        past.epoch = epoch
        past.highest_epoch = max(past.highest_epoch, epoch)
        past.role = type(role)
        past.leader_id = leader_id
        past.voted_id = voted_id
        if type(role) is Resigned:
            past.resigned_epoch = epoch

    def _check_role(self, machine: Machine, core: RaftCore, past: Past) -> None:
        role = core.role
        if machine.id not in self._voters and type(role) not in (Unattached, Follower):
            self._fail("I16", machine, f"an observer is {type(role).__name__}")
        if type(role) is Follower and role.leader_id == machine.id:
            self._fail("I16", machine, "it follows itself")
        if type(role) in (Leader, Candidate) and past.resigned_epoch == core.epoch:
            self._fail("I16", machine, f"resigned in epoch {core.epoch}, now {type(role).__name__}")

    def _on_elected(self, machine: Machine, core: RaftCore) -> None:
        """Check I7: what its epoch or an earlier one committed is in its log or its snapshot."""
        self.elections += 1
        self._probes.hit("leader_elected")
        last = self.ledger.last_known_in(core.epoch)
        if last is None:
            return
        mirror = self.mirrors[machine.id]
        found = mirror.find(last.base_offset)
        if found is not None and found == last:
            return
        if core.log_start_offset >= last.end_offset:
            return
        self._fail("I7", machine, f"it leads epoch {core.epoch} without {last}, it has {found}")

    # ---- the log: I5 I6 I11 --------------------------------------------------------------------

    def _on_log(
        self, machine: Machine, core: RaftCore, past: Past, written_end: int
    ) -> list[Entry]:
        """Check a changed log; return what was appended, nothing when the log was cut."""
        mirror = self.mirrors[machine.id]
        is_cut = core.log_generation != past.generation or written_end < past.log_end
        is_changed = machine.vfs.log_changes != past.log_changes  # reported or not
        if is_cut or is_changed or core.log_start_offset != past.log_start:
            before = mirror.entries
            mirror.forget_durable()
            after = mirror.reread(machine.vfs)
            if self._on_cut(machine, core, before, after):
                past.cut_end = past.log_end
            if core.log_start_offset > past.log_start:
                self._probes.hit("log_start_moved")
            is_grown = not is_cut and after[: len(before)] == before
            fresh = after[len(before) :] if is_grown else after
        else:
            fresh = mirror.appended(machine.vfs)
            if mirror.segment_count > past.segments > 0:
                self._probes.hit("segment_rolled")
            if fresh and fresh[0].base_offset < past.cut_end:
                self._probes.hit("uncommitted_tail_overwritten")
                past.cut_end = -1
        past.segments = mirror.segment_count
        first = len(mirror.entries) - len(fresh)
        previous = mirror.entries[first - 1] if first > 0 else None
        for entry in fresh:
            self._register(machine, entry, previous)
            previous = entry
        if mirror.entries and mirror.end_offset != written_end:
            self._fail("I6", machine, f"files end at {mirror.end_offset}, its log at {written_end}")
        is_appended = core.log_generation == past.generation and written_end >= past.log_end
        past.log_end = written_end
        past.log_start = core.log_start_offset
        past.generation = core.log_generation
        past.log_changes = machine.vfs.log_changes
        return fresh if is_appended and fresh is not mirror.entries else []

    def _on_cut(
        self, machine: Machine, core: RaftCore, before: list[Entry], after: list[Entry]
    ) -> bool:
        """Check removed entries; return True if some are gone that no snapshot covers."""
        assert machine.kernel is not None
        kept = set(after)  # raft is told of the log's start behind other events of a step
        start = max(core.log_start_offset, machine.kernel.log.log_start_offset)
        is_cut = False
        for entry in before:
            if entry in kept or entry.end_offset <= start:
                continue
            is_cut = True
            is_known = self.ledger.committed_in.get(entry.base_offset, 0) <= core.epoch
            if is_known and self.ledger.entry_at(entry.base_offset) == entry:
                self._fail("I11", machine, f"it cut {entry}, which is committed")
            if type(core.role) is Leader and entry.epoch == core.epoch:
                self._fail("I5", machine, f"a leader cut its own {entry}")
        if is_cut:
            self._probes.hit("log_truncated")
        return is_cut

    def _register_others(
        self, machine: Machine, entries: list[Entry], registered: list[Entry]
    ) -> None:
        """Register the batches of a log that are not, in the same place, in a registered one.

        Batches that passed once would pass again: the ledger forgets none.
        """
        first = min(len(entries), len(registered))
        if entries[:first] != registered[:first]:
            first = 0
        previous = entries[first - 1] if first > 0 else None
        for entry in entries[first:]:
            self._register(machine, entry, previous)
            previous = entry

    def _register(self, machine: Machine, entry: Entry, previous: Entry | None) -> None:
        """Check I6 by induction: equal (epoch, offset): equal batch and equal batch before it."""
        known = self.ledger.batches.get((entry.epoch, entry.base_offset))
        if known == (entry, previous):
            return  # as in another log, or in this one before a restart
        if previous is not None and (
            previous.end_offset != entry.base_offset or previous.epoch > entry.epoch
        ):
            self._fail("I6", machine, f"{entry} behind {previous}")
        if known is None:
            self.ledger.batches[entry.epoch, entry.base_offset] = (entry, previous)
            return
        if known[0] != entry:
            self._fail("I6", machine, f"two logs differ: {entry} and {known[0]}")
        if previous is not None and known[1] is not None and known[1] != previous:
            self._fail("I6", machine, f"two logs differ before {entry}: {previous}, {known[1]}")
        if known[1] is None and previous is not None:
            self.ledger.batches[entry.epoch, entry.base_offset] = (entry, previous)

    # ---- commits: I8 I9 I10 I17 ----------------------------------------------------------------

    def _on_high_watermark(self, machine: Machine, core: RaftCore, past: Past) -> None:
        high_watermark = core.high_watermark
        if high_watermark is None:
            return  # a new leader does not know it yet; it may not fall later
        if past.high_watermark is not None and high_watermark < past.high_watermark:
            self._fail(
                "I9", machine, f"high watermark {high_watermark} after {past.high_watermark}"
            )
        past.high_watermark = high_watermark
        if high_watermark > core.log_end_offset:
            self._fail("I9", machine, f"{high_watermark=} above the log end {core.log_end_offset}")
        if high_watermark <= self.ledger.end_offset:
            if type(core.role) is Leader and core.log_start_offset < high_watermark:
                last = self._last_of_own(machine, core, high_watermark)
                committed = self.ledger.entry_ending_at(high_watermark)
                if committed != last:
                    self._fail("I8", machine, f"it commits {last}, committed is {committed}")
            return
        if type(core.role) is not Leader:
            self._fail(
                "I9",
                machine,
                f"a {type(core.role).__name__} commits {high_watermark}, no leader has",
            )
        self._commit(machine, core, high_watermark)

    def _last_of_own(self, machine: Machine, core: RaftCore, high_watermark: int) -> Entry:
        """Return the last batch that a leader commits, checked to be whole and of its own epoch."""
        last = self.mirrors[machine.id].find(high_watermark - 1)
        if last is None or last.end_offset != high_watermark:
            self._fail("I10", machine, f"{high_watermark=} inside a batch: {last}")
        assert last is not None
        if last.epoch != core.epoch:
            self._fail("I10", machine, f"epoch {core.epoch} commits {last} of an earlier epoch")
        return last

    def _commit(self, machine: Machine, core: RaftCore, high_watermark: int) -> None:
        mirror = self.mirrors[machine.id]
        last = self._last_of_own(machine, core, high_watermark)
        held = {
            number: self.mirrors[number].durable_entry(self._machines[number].vfs, high_watermark)
            for number in sorted(self._voters)
        }
        holding = {number for number, entry in held.items() if entry == last}
        if len(holding | self._wiped.now()) < len(self._voters) // 2 + 1:
            self._fail("I10", machine, f"it commits {last}; durable there at the voters: {held}")
        position, fencings = self.ledger.end_offset, self.ledger.fencings
        if type(core.role) is Leader and position < core.role.epoch_start_offset:
            self._probes.hit("older_epoch_committed_by_own_entry")
        while position < high_watermark:
            entry = mirror.find(position)
            if entry is None or entry.base_offset != position:
                self._fail("I8", machine, f"no batch at {position} below {high_watermark=}")
            assert entry is not None
            self.ledger.commit(entry, self._stored(machine, entry), core.epoch)
            position = entry.end_offset
        if self.ledger.fencings > fencings:
            self._probes.hit("broker_fenced")

    def _stored(self, machine: Machine, entry: Entry) -> bytes:
        assert machine.kernel is not None
        log = machine.kernel.log
        return type(log).read(log, entry.base_offset, 1, entry.end_offset)  # `log.read` may fail

    def _on_applied(self, machine: Machine, kernel: Kernel, past: Past, applied: int) -> None:
        core = kernel.core
        if applied > self.ledger.end_offset and past.led_epoch == core.epoch:
            # The leader of this epoch committed and resigned in one step.
            self._commit(machine, core, applied)
        if applied < past.applied:
            self._fail("I17", machine, f"the image went back from {past.applied} to {applied}")
        if applied > self.ledger.end_offset:
            self._fail("I8", machine, f"applied {applied}, committed {self.ledger.end_offset}")
        mirror = self.mirrors[machine.id]
        last = mirror.find(applied - 1) if applied > mirror.start_offset else None
        if last is not None:
            committed = self.ledger.entry_at(last.base_offset)
            if committed is not None and committed != last:
                self._fail("I8", machine, f"applied {last}, committed is {committed}")
        past.applied = applied
        wrong = self._loaders[machine.id].broken(self.ledger)
        if wrong is not None:
            self._fail("I8", machine, wrong)
        watch = self._publications.get(machine.id)
        if watch is not None and watch.broken is not None:
            self._fail("I17", machine, watch.broken)
        self.compare_image(machine, kernel)

    def compare_image(self, machine: Machine, kernel: Kernel) -> None:
        """Check I17: the published image is that of what was applied, as the oracle makes it."""
        loader, image = kernel.loader, kernel.cache.image
        if loader.transaction_start is not None:
            return
        published_end = image.provenance.end_offset
        if published_end != loader.end_offset:
            applied = f"it applied {loader.end_offset}"
            self._fail("I17", machine, f"{applied} and publishes the image of {published_end}")
        expected = self.ledger.images.get(published_end)
        if expected is None:
            return
        different = image_difference(image, expected, self._equal.get(machine.id))
        if different is not None:
            self._fail("I17", machine, f"at {published_end}: {different}")
        self._equal[machine.id] = (image, expected)

    # ---- controller: I14 -----------------------------------------------------------------------

    def _on_controller(
        self, machine: Machine, state: MetadataState, past: Past, role: Role
    ) -> None:
        controller = state.controller
        assert controller is not None
        epoch = controller._epoch
        if epoch is not None:
            if self._active.setdefault(epoch, machine.id) != machine.id:
                self._fail("I14", machine, f"a second controller is active in epoch {epoch}")
            if type(role) is not Leader or role.epoch != epoch or not role.is_claimed:
                self._fail("I14", machine, f"active in epoch {epoch} as {role}")
            has_batches = bool(controller._batches)
            past.has_pending = has_batches and controller.latest is not controller.committed
        else:
            self._probes.hit("controller_renounced")
            if past.has_pending:
                self._probes.hit("controller_reverted_speculative_state")
            past.has_pending = False
            if controller._batches or controller.latest is not controller.committed:
                self._fail("I14", machine, "inactive with records that were not committed")
        strange = self._controllers.broken(state, machine.id)
        if strange is not None:
            self._fail("I14", machine, strange)
        past.was_active = epoch is not None

    def _fail(self, invariant: str, machine: Machine, text: str) -> None:
        raise Violation(invariant, f"node {machine.id}: {text}")
