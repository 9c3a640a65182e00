"""Scenarios of the raft core: several replicas, each driven by hand, one command at a time.

Nothing happens by itself. Every replica has its own clock, so `timeout 3` lets the timer of one
replica fire and no other; random draws are a list that the scenario gives (0 when it is empty: an
election time-out is then exactly E). A request to a replica that is not started waits for `answer`
or `fail`: one replica is tested alone, and the scenario gives the answers of its peers.

Each command is described at its method; the words of messages are those of `raft_text`.
"""

from collections.abc import Callable
from typing import Final

from raft import effects as fx
from raft import events as ev
from raft import messages as m
from raft.config import RaftConfig
from simulator.scenarios import raft_text as text
from simulator.scenarios.command import Command, ScenarioError, to_ints
from simulator.scenarios.raft_disk import ScenarioDisk
from simulator.scenarios.raft_quorum import Message, Replica, ScenarioQuorum
from wire.types import DirectoryId, Endpoint, LeaderEpoch, NodeId, Offset, ReplicaKey

ELECTION_ROUNDS_MAX: Final = 5
CLUSTER_ID: Final = "cluster"


class RaftScenario:
    """Environment of tests/scenarios/raft."""

    def __init__(self) -> None:
        self.quorum = ScenarioQuorum()
        self.commands: dict[str, Callable[[Command], None]] = {
            "nodes": self._nodes,
            "disk": self._disk,
            "start": self._start,
            "stop": self._stop,
            "wipe": self._wipe,
            "timeout": self._timeout,
            "advance": self._advance,
            "draw": self._draw,
            "elect": self._elect,
            "run": self._run,
            "deliver": self._deliver,
            "drop": self._drop,
            "isolate": self._isolate,
            "heal": self._heal,
            "recv": self._recv,
            "answer": self._answer,
            "fail": self._fail,
            "propose": self._propose,
            "read": self._read,
            "reconnect": self._reconnect,
            "flush": self._flush,
            "full": self._full,
            "space": self._space,
            "evidence": self._evidence,
            "resign": self._resign,
            "transfer": self._transfer,
            "shutdown": self._shutdown,
            "snapshot": self._snapshot,
            "describe": self._describe,
            "state": self._state,
            "causes": self._causes,
            "deadline": self._deadline,
        }

    def run(self, command: Command) -> list[str]:
        """Perform one command; return what the replicas did."""
        if command.name not in self.commands:
            allowed = ", ".join(sorted(self.commands))
            raise ScenarioError(f"no command {command.name!r}, allowed: {allowed}")
        self.quorum.said = []
        self.commands[command.name](command)
        return self.quorum.said

    # --- setting up -----------------------------------------------------------------------------

    def _nodes(self, command: Command) -> None:
        """`nodes voters=1,2,3 [observers=4] [evidence=on] [dirs=on] [max_bytes=N]`.

        Also `[request_timeout=MS]`: time-out of a request without an answer. `max_bytes` is the
        limit of one Fetch or FetchSnapshot; `[endpoints=on]` lets answers show the leader's
        endpoint.
        """
        voters = tuple(
            (NodeId(i), Endpoint("CONTROLLER", f"host{i}", 9093)) for i in command.numbers("voters")
        )
        has_directories = command.option("dirs", "off") == "on"
        max_bytes = command.number_option("max_bytes", 1_000_000)
        self.quorum.shows_endpoints = command.option("endpoints", "off") == "on"
        ids = [*(voter_id for voter_id, _ in voters), *map(NodeId, command.numbers("observers"))]
        for node_id in ids:
            config = RaftConfig(
                node_id=node_id,
                directory_id=text.directory_id_of(node_id) if has_directories else None,
                cluster_id=CLUSTER_ID,
                voters=voters,
                listeners=tuple(at for voter_id, at in voters if voter_id == node_id),
                evidence=command.option("evidence", "off") == "on",
                request_timeout_ms=command.number_option("request_timeout", 2_000),
                fetch_max_bytes=max_bytes,
                fetch_snapshot_max_bytes=max_bytes,
            )
            self.quorum.replicas[node_id] = Replica(config)

    def _disk(self, command: Command) -> None:
        """`disk 1 [epoch=4] [leader=2] [voted=1[@9]] [log=1x3,2x2] [snapshot=5-1] [start=5]`.

        Also `[unproven]`: with the mark of a voter that may have lost an earlier disk.
        """
        disk = self._replica(command).disk
        leader = command.option("leader", "-")
        voted, _, directory = command.option("voted", "-").partition("@")
        directory_id: DirectoryId | None = None
        if directory:
            directory_id = text.directory_id_of(int(directory))
        disk.election = (
            LeaderEpoch(command.number_option("epoch", 0)),
            None if leader == "-" else NodeId(int(leader)),
            None if voted == "-" else ReplicaKey(NodeId(int(voted)), directory_id),
        )
        disk.is_unproven = command.has("unproven")
        disk.records = text.parse_records(command.option("log", "-"))
        disk.flushed_end_offset = disk.end_offset
        if snapshot := command.option("snapshot", ""):
            size_bytes = command.number_option("size", 20)
            start_offset = command.number_option("start", 0)
            disk.add_snapshot(text.parse_snapshot_id(snapshot), size_bytes, start_offset)

    def _start(self, command: Command) -> None:
        """`start 1,2,3`: start replicas from their disks."""
        started = [self.quorum.replica(i) for i in to_ints(command.argument(0, "ids"))]
        for replica in started:
            replica.start()
        for replica in started:
            self.quorum.step(replica, ev.TimeAdvanced())

    def _stop(self, command: Command) -> None:
        """`stop 1`: crash; what was not flushed is lost, no other replica is notified."""
        replica = self._replica(command)
        replica.core = None
        replica.disk.crash()
        self.quorum.lose_messages_of(replica.id)
        self.quorum.forget_caller(replica.id)

    def _wipe(self, command: Command) -> None:
        """`wipe 2 [unmarked]`: replace the disk of a stopped replica by an empty one, marked."""
        replica = self._replica(command)
        if replica.core is not None:
            raise ScenarioError(f"{replica.id} runs")
        replica.disk = ScenarioDisk()
        replica.disk.is_unproven = not command.has("unmarked")

    # --- time and chance ------------------------------------------------------------------------

    def _timeout(self, command: Command) -> None:
        """`timeout 3`: let the timers of one replica fire, one by one, until its role changes."""
        self.quorum.fire_until_change(self._replica(command))

    def _advance(self, command: Command) -> None:
        """`advance 500 [1,2]`: let clocks run without delivering anything."""
        duration_ms = command.number(0, "ms")
        ids = to_ints(command.arguments[1]) if command.rest(1) else tuple(self.quorum.replicas)
        for replica in map(self.quorum.replica, ids):
            end_ms = replica.now_ms + duration_ms
            while replica.core is not None:
                deadline_ms = replica.core.next_deadline_ms()
                if deadline_ms is None or deadline_ms > end_ms:
                    break
                self.quorum.fire(replica)
            replica.now_ms = end_ms

    def _draw(self, command: Command) -> None:
        """`draw 1 250 0`: add random numbers for the next draws of a replica."""
        replica = self._replica(command)
        replica.rng.add(*map(int, command.rest(1)))

    def _deadline(self, command: Command) -> None:
        """`deadline 1`: show the next deadline of the replica."""
        replica = self._replica(command)
        at_ms = replica.running.next_deadline_ms()
        when = "never" if at_ms is None else f"in {at_ms - replica.now_ms} ms"
        self.quorum.say(replica, f"wakes {when}")

    def _elect(self, command: Command) -> None:
        """`elect 1`: fire its timers and deliver everything until it leads and may act."""
        replica = self._replica(command)
        for _ in range(ELECTION_ROUNDS_MAX):
            self.quorum.fire_until_change(replica)
            self.quorum.run_until_quiet()
            if replica.running.is_leader and replica.running.high_watermark is not None:
                return
        raise ScenarioError(f"{replica.id} was not elected: {text.role_text(replica.running.role)}")

    # --- network --------------------------------------------------------------------------------

    def _run(self, command: Command) -> None:
        """`run`: deliver messages, oldest first, until none is in flight."""
        assert command.name == "run", command.name
        self.quorum.run_until_quiet()

    def _deliver(self, command: Command) -> None:
        """`deliver 1 2 [count]`: deliver the oldest messages from 1 to 2."""
        count = command.number(2, "count") if command.rest(2) else 1
        for _ in range(count):
            self.quorum.arrive(self._take(command))

    def _drop(self, command: Command) -> None:
        """`drop 1 2`: lose the oldest message from 1 to 2."""
        self._take(command)

    def _take(self, command: Command) -> Message:
        route = (command.number(0, "from"), command.number(1, "to"))
        return self.quorum.take_message(*route)

    def _isolate(self, command: Command) -> None:
        """`isolate 1`: lose messages from and to it, those in flight too."""
        self.quorum.isolate(self._replica(command).id)

    def _heal(self, command: Command) -> None:
        """`heal 1`."""
        self.quorum.heal(self._replica(command).id)

    def _recv(self, command: Command) -> None:
        """`recv 1 Vote from=2 epoch=3 ...`: deliver a request of a peer that the scenario plays."""
        replica = self._replica(command)
        sender, request = text.parse_request(command, replica.config)
        self.quorum.request(replica, sender, request, None)

    def _answer(self, command: Command) -> None:
        """`answer 1 2 granted epoch=1 ...`: 2 answers the last request of 1 to it."""
        replica = self._replica(command)
        sent = self._sent(command)
        self.quorum.respond(replica, sent, text.parse_response(command, sent.request))

    def _fail(self, command: Command) -> None:
        """`fail 1 2 [error=BROKER_NOT_AVAILABLE]`: the last request of 1 to 2 gets no answer."""
        replica = self._replica(command)
        sent = self._sent(command)
        name = command.option("error", "BROKER_NOT_AVAILABLE")
        event = ev.RequestFailed(
            destination_id=sent.destination_id,
            correlation_id=sent.correlation_id,
            error_code=text.ERROR_CODES[name],
        )
        self.quorum.step(replica, event)

    def _sent(self, command: Command) -> fx.SendRequest:
        route = (NodeId(command.number(0, "id")), NodeId(command.number(1, "peer")))
        if route not in self.quorum.in_flight:
            raise ScenarioError(f"{route[0]} asked nothing of {route[1]}")
        sent = self.quorum.in_flight[route]
        self.quorum.withdraw(sent)
        return sent

    # --- other parts of a node --------------------------------------------------------------------

    def _propose(self, command: Command) -> None:
        """`propose 1 a b [epoch=1]`: propose one batch with the values."""
        replica = self._replica(command)
        epoch = LeaderEpoch(command.number_option("epoch", replica.running.epoch))
        values = tuple(value.encode() for value in command.rest(1))
        if not replica.running.can_propose(epoch):
            self.quorum.say(replica, f"refuses to append in epoch={epoch}")
        self.quorum.step(replica, ev.Propose(epoch=epoch, values=values))

    def _read(self, command: Command) -> None:
        """`read 1 7`: begin linearizable reads with these tokens."""
        replica = self._replica(command)
        for token in command.rest(1):
            self.quorum.step(replica, ev.ReadIndexRequested(int(token)))

    def _reconnect(self, command: Command) -> None:
        """`reconnect 2 1`: requests from 2 to 1 come on another connection from now on."""
        route = (NodeId(command.number(0, "from")), NodeId(command.number(1, "to")))
        self.quorum.reconnect(*route)

    def _flush(self, command: Command) -> None:
        """`flush 1 manual`: from now on only `flush 1` makes its log durable."""
        replica = self._replica(command)
        if command.has("manual"):
            replica.flushes_by_hand = True
        else:
            self.quorum.flush_log(replica)

    def _full(self, command: Command) -> None:
        """`full 1 [told]`: make its disk refuse appends; it learns so by one, or at once."""
        replica = self._replica(command)
        replica.disk.is_full = True
        if command.has("told"):
            self.quorum.step(replica, ev.DiskFull())

    def _space(self, command: Command) -> None:
        """`space 1`: make its disk take appends again."""
        self.quorum.make_space(self._replica(command))

    def _evidence(self, command: Command) -> None:
        """`evidence 2 lost=1 [epoch=1]`: the connection to 1 closed, a reconnect was refused."""
        replica = self._replica(command)
        event = ev.LeaderUnreachable(
            leader_id=NodeId(command.number_option("lost", 0)),
            epoch=LeaderEpoch(command.number_option("epoch", replica.running.epoch)),
        )
        self.quorum.step(replica, event)

    def _resign(self, command: Command) -> None:
        """`resign 1 epoch=1`."""
        replica = self._replica(command)
        epoch = LeaderEpoch(command.number_option("epoch", replica.running.epoch))
        self.quorum.step(replica, ev.ResignRequested(epoch=epoch))

    def _transfer(self, command: Command) -> None:
        """`transfer 1 3 [voters=1,2,3] [timeout=MS]`: ask 1 to hand its leadership over to 3."""
        replica = self._replica(command)
        target = command.number(1, "target")
        voters = command.numbers("voters") or [i for i, _ in replica.config.voters]
        request = m.TransferLeadershipRequest(
            replicas=(target, *[number for number in voters if number != target]),
            timeout_ms=command.number_option("timeout", 30_000),
        )
        self.quorum.request(replica, None, request, None)

    def _shutdown(self, command: Command) -> None:
        """`shutdown 1`."""
        self.quorum.step(self._replica(command), ev.ShutdownRequested())

    def _snapshot(self, command: Command) -> None:
        """`snapshot 1 5-1 [start=5] [size=20]`: freeze a snapshot; its log may start later."""
        replica = self._replica(command)
        snapshot_id = text.parse_snapshot_id(command.argument(1, "snapshot id"))
        start_offset = command.number_option("start", replica.disk.start_offset)
        replica.disk.add_snapshot(snapshot_id, command.number_option("size", 20), start_offset)
        event = ev.SnapshotAdded(snapshot_id=snapshot_id, log_start_offset=Offset(start_offset))
        self.quorum.step(replica, event)

    def _describe(self, command: Command) -> None:
        """`describe 1`: ask for DescribeQuorum; its wall clock is the replica's."""
        self.quorum.request(self._replica(command), None, m.DescribeQuorumRequest(), None)

    def _state(self, command: Command) -> None:
        """`state [1,2]`: show role, log and high watermark of the replicas that run."""
        ids = to_ints(command.arguments[0]) if command.rest(0) else tuple(self.quorum.replicas)
        for replica in map(self.quorum.replica, ids):
            core = replica.core
            if core is None:
                self.quorum.say(replica, "stopped")
                continue
            watermark = text.name_of(core.high_watermark)
            log = f"log=[{core.log_start_offset},{core.log_end_offset}) hw={watermark}"
            self.quorum.say(
                replica, f"{text.role_text(core.role)} {log} parked={core.parked_fetch_count}"
            )

    def _causes(self, command: Command) -> None:
        """`causes 1`: show the causes that it gave with changes of its leader, once each."""
        replica = self._replica(command)
        losses, replica.losses = replica.losses, []
        for effect in losses:
            self.quorum.say(replica, text.loss_text(effect))

    # --- performing effects ---------------------------------------------------------------------

    def _replica(self, command: Command) -> Replica:
        return self.quorum.replica(command.number(0, "id of a node"))
