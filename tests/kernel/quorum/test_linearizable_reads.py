"""Linearizable reads of whole nodes: the image behind an answer, and one Fetch on a connection."""

from types import SimpleNamespace
from typing import Any, cast

from typing_extensions import override

from kernel import effects as out
from kernel import events
from kernel.quorum.linearizable_reads import LinearizableReads
from kernel.quorum.messages import table
from raft.effects import ReadIndexConfirmed
from raft.fetching.reads import ReadRefusal
from raft.messages import FetchRequest
from tests.kernel.harness import World
from tests.kernel.test_kernel import ready_world
from wire.api_keys import FETCH
from wire.types import NodeId, Offset

TOKEN = 7


def ask(world: World, node_id: int) -> None:
    """Begin a read at a node."""
    node = world.nodes[node_id]
    node.reads.clear()
    world.post(node_id, node.life, events.ReadAsked(TOKEN))


def answers(world: World, node_id: int) -> list[out.AnswerRead]:
    return world.nodes[node_id].reads


def leader_of(world: World) -> int:
    leader = world.active()
    assert leader is not None
    return leader


def test_the_leader_answers_within_a_round_trip_and_others_refuse() -> None:
    world = ready_world()
    world.run_for(100)
    leader = leader_of(world)
    for node_id in world.alive:
        ask(world, node_id)
    assert world.run_until(lambda: bool(answers(world, leader))) <= 4
    assert answers(world, leader) == [out.AnswerRead(TOKEN)]
    for node_id in set(world.alive) - {leader}:
        assert answers(world, node_id) == [out.AnswerRead(TOKEN, ReadRefusal.NOT_LEADER)]


def test_a_paused_leader_that_was_replaced_does_not_answer() -> None:
    """A read that it takes first, before the bytes that came while it was paused."""
    world = ready_world()
    old = leader_of(world)
    world.client(old).create_topic("a")
    world.pause(old)
    others = [node_id for node_id in world.alive if node_id != old]
    world.run_until(lambda: any(world.kernel(node_id).state.is_active for node_id in others))
    world.client(others[0]).create_topic("b")
    waiting = world.paused[old]
    waiting.insert(0, (world.nodes[old].life, events.ReadAsked(TOKEN)))
    world.resume(old)
    world.run_until(lambda: bool(answers(world, old)))
    assert answers(world, old) == [out.AnswerRead(TOKEN, ReadRefusal.LEADERSHIP_LOST)]


class HalvesWorld(World):
    """A read comes with the end of a flush; keeps the effects of both halves of that step."""

    halves: tuple[list[out.Effect], list[out.Effect]] | None = None

    @override
    def _flush(self, node_id: int, life: int, effect: out.RunFlush) -> None:
        kernel = self.kernel(node_id)
        if not self.is_ready() or kernel.core.log_end_offset == kernel.core.high_watermark:
            super()._flush(node_id, life, effect)
            return
        effect.plan.run()
        together = (events.FlushDone(effect.token), events.ReadAsked(TOKEN))
        first = kernel.take(together, self._now())
        end_offset = kernel.state.applied_end_offset
        second = kernel.settle()
        assert kernel.state.applied_end_offset > end_offset
        self.halves = (first, second)
        self._perform(node_id, life, first + second)


def test_a_read_is_answered_behind_the_image_that_it_waits_for() -> None:
    world = HalvesWorld(1)
    world.start_all()
    world.run_until(world.is_ready)
    world.client(1).create_topic("a")
    assert world.halves is not None
    first, second = world.halves
    assert out.AnswerRead(TOKEN) not in first
    assert out.AnswerRead(TOKEN) in second


def fetch(world: World, node_id: int) -> Any:
    """The body of an observer's Fetch at the end of the log, which waits for 500 ms."""
    core = world.kernel(node_id).core
    assert core.high_watermark is not None
    request = FetchRequest(
        cluster_id=None,
        replica_id=NodeId(9),
        replica_directory_id=None,
        current_leader_epoch=core.epoch,
        fetch_offset=core.log_end_offset,
        last_fetched_epoch=core.last_epoch,
        max_wait_ms=500,
        max_bytes=1_000,
        high_watermark=core.high_watermark,
    )
    return table.request_to_wire(request)[1]


def test_a_second_fetch_behind_an_unanswered_one_ends_the_connection() -> None:
    world = ready_world(1)
    world.run_for(600)
    client = world.client(1, "CONTROLLER")
    client.send(FETCH, fetch(world, 1))
    world.run_for(10)
    assert world.kernel(1).core.parked_fetch_count == 1
    client.send(FETCH, fetch(world, 1))
    world.run_until(lambda: not world.is_open(client.pipe))
    (closed,) = [log for log in world.nodes[1].logs if log.event == "connection_closed"]
    assert "behind an unanswered one" in str(closed.fields["reason"])


def test_fetches_one_after_the_other_share_a_connection() -> None:
    world = ready_world(1)
    world.run_for(600)
    client = world.client(1, "CONTROLLER")
    for _ in range(3):
        client.call(FETCH, fetch(world, 1))
    assert world.is_open(client.pipe)
    other = world.client(1, "CONTROLLER")
    for each in (client, other):
        each.send(FETCH, fetch(world, 1))
    world.run_for(600)
    assert world.is_open(client.pipe)
    assert world.is_open(other.pipe)


def test_a_confirmed_read_waits_for_the_image() -> None:
    """INV-READ-4: it is published behind the step that commits."""
    effects: list[out.Effect] = []
    state = SimpleNamespace(applied_end_offset=4)
    reads = LinearizableReads(cast(Any, None), cast(Any, state), effects)
    for token, offset in ((1, 4), (2, 5), (3, 7)):
        reads.on_confirmed(ReadIndexConfirmed(tokens=(token,), offset=Offset(offset)))
    reads.answer_applied()
    assert effects == [out.AnswerRead(1)]
    state.applied_end_offset = 6
    reads.answer_applied()
    assert effects == [out.AnswerRead(1), out.AnswerRead(2)]
