"""A step has two halves: what others wait for leaves first, the rest follows."""

import itertools

import pytest

from kernel import effects as out
from kernel.events import BytesReceived
from kernel.kernel import Kernel
from kernel.lifecycle.folders import LINGER_MS_MAX
from tests.kernel.harness import World, create_topic_body
from wire.batches.batch import iterate_batches
from wire.messages import codec

API_CREATE_TOPICS = 19


@pytest.fixture
def world():
    world = World(3)
    world.start_all()
    world.run_until(world.is_ready)
    return world


@pytest.fixture
def halves(monkeypatch):
    """Per half: node id, which half, its effects' types, the offset published when it returned."""
    seen = []

    def note(kernel, half, effects):
        published = kernel.cache.image.provenance.end_offset
        seen.append((kernel.config.node_id, half, [type(effect) for effect in effects], published))

    take, settle = Kernel.take, Kernel.settle

    def noted_take(self, events, now):
        effects = take(self, events, now)
        note(self, "take", effects)
        return effects

    def noted_settle(self):
        effects = settle(self)
        note(self, "settle", effects)
        return effects

    monkeypatch.setattr(Kernel, "take", noted_take)
    monkeypatch.setattr(Kernel, "settle", noted_settle)
    return seen


def _publishing(halves, node_id):
    """The settle that published something, and the take before it."""
    of_node = [half for half in halves if half[0] == node_id]
    for before, after in itertools.pairwise(of_node):
        if after[3] > before[3]:
            return before, after
    raise AssertionError(f"node {node_id} published nothing")


def test_a_leader_answers_before_it_publishes(world, halves):
    leader = world.active()
    world.client(leader, "CONTROLLER").create_topic("orders")
    take, settle = _publishing(halves, leader)
    assert (take[1], settle[1]) == ("take", "settle")
    assert out.SendBytes in take[2]


def test_a_follower_fetches_before_it_publishes(world, halves):
    leader = world.active()
    world.client(leader, "CONTROLLER").create_topic("orders")
    world.run_for(100)
    follower = next(i for i in world.alive if i != leader)
    take, settle = _publishing(halves, follower)
    assert (take[1], settle[1]) == ("take", "settle")
    assert take[2] == [out.SendPeerBytes]


def test_what_was_answered_is_published_when_the_step_is_over(world):
    leader = world.active()
    client = world.client(leader, "CONTROLLER")
    client.create_topic("orders")
    assert "orders" in world.kernel(leader).cache.image.topic_id_by_name


def test_a_flush_of_a_leader_says_that_others_may_be_quicker(world):
    effects = _flushes(world)
    leader = world.active()
    world.client(leader, "CONTROLLER").create_topic("orders")
    assert {node_id: flush.has_followers for node_id, flush in effects} == {
        node_id: node_id == leader for node_id in world.alive
    }


def _flushes(world):
    seen = []
    perform = world._perform_one

    def noted(node_id, life, effect):
        if isinstance(effect, out.RunFlush):
            seen.append((node_id, effect))
        perform(node_id, life, effect)

    world._perform_one = noted
    return seen


def test_folders_of_topics_that_come_together_are_one_piece_of_work(world):
    leader = world.active()
    works = []
    perform = world._perform_one

    def noted(node_id, life, effect):
        if isinstance(effect, out.RunLocalChanges):
            works.append(node_id)
        perform(node_id, life, effect)

    world._perform_one = noted
    client = world.client(leader, "CONTROLLER")
    for number in range(5):
        client.send(API_CREATE_TOPICS, create_topic_body(f"t{number}", replicas=3))
    world.run_for(1_000)
    assert sorted(works) == world.alive
    for node_id in world.alive:
        found = {name for name in world.nodes[node_id].vfs.list("/data") if name.startswith("t")}
        assert found == {f"t{number}-0" for number in range(5)}


def test_what_is_proposed_in_one_step_is_one_batch_and_one_publication(world, monkeypatch):
    leader = world.active()
    kernel = world.kernel(leader)
    published = []
    publish = kernel.publishers.publish

    def noted(after, delta):
        published.append(len(delta.topics_created))
        publish(after, delta)

    monkeypatch.setattr(kernel.publishers, "publish", noted)
    client = world.client(leader, "CONTROLLER")
    client.call(18, codec.default_request(18))  # agreed on versions: what follows leaves at once
    batches = len(_batches(kernel))
    requests = [
        client.connection.request(API_CREATE_TOPICS, create_topic_body(f"t{i}")) for i in range(5)
    ]
    tokens = [token for token, _ in requests]
    world.send(client.pipe, b"".join(content for _, content in requests))
    world.run_until(lambda: all(token in client.answers for token in tokens))
    assert {row.error_code.value for t in tokens for row in client.answers[t].topics} == {0}
    assert len(_batches(kernel)) == batches + 1
    assert published == [5]
    provenance = kernel.cache.image.provenance
    followers = [world.kernel(node_id) for node_id in world.alive if node_id != leader]
    world.run_until(lambda: all(f.cache.image.provenance == provenance for f in followers), 400)


def _batches(kernel):
    log = kernel.log
    return list(iterate_batches(log.read(log.log_start_offset, 1 << 20)))


def test_folders_of_a_burst_wait_for_its_end_but_not_for_ever(world):
    leader = world.active()
    starts = []
    perform = world._perform_one

    def noted(node_id, life, effect):
        if isinstance(effect, out.RunLocalChanges) and node_id == leader:
            starts.append(world.now_ms)
        perform(node_id, life, effect)

    world._perform_one = noted
    client = world.client(leader, "CONTROLLER")
    begin_ms = world.now_ms
    for number in range(60):
        client.send(API_CREATE_TOPICS, create_topic_body(f"t{number}", replicas=3))
        world.run_for(30)
    world.run_for(200)
    assert len(starts) == 2
    assert LINGER_MS_MAX <= starts[0] - begin_ms <= LINGER_MS_MAX + 100


def test_a_fetch_that_comes_with_a_create_is_answered_with_its_records(world):
    """Of two events taken together the create counts first: the fetch need not come again."""
    leader = world.active()
    kernel = world.kernel(leader)
    client = world.client(leader, "CONTROLLER")
    client.create_topic("before")
    fetches, post = [], world.post

    def held(node_id, life, event):
        """Keep the next fetch of a follower back until a create goes with it."""
        data = getattr(event, "data", b"")
        if not fetches and node_id == leader and data[4:6] == b"\x00\x01":
            fetches.append(event)
        else:
            post(node_id, life, event)

    world.post = held
    world.run_until(lambda: bool(fetches))
    create = client.connection.request(API_CREATE_TOPICS, create_topic_body("orders"))[1]
    assert kernel.config.node_id == leader
    events = [fetches[0], BytesReceived(client.pipe.server[2], create)]
    end_offset = kernel.log.end_offset
    sent = [e for e in kernel.steps(events, world._now()) if isinstance(e, out.SendBytes)]
    assert kernel.log.end_offset > end_offset
    assert any(b"orders" in effect.data for effect in sent)


def test_who_leads_no_longer_forgets_the_times_of_its_appends(world):
    leader = world.active()
    client = world.client(leader, "CONTROLLER")
    client.create_topic("before")
    for follower in [node_id for node_id in world.alive if node_id != leader]:
        world.pause(follower)
    client.send(API_CREATE_TOPICS, create_topic_body("never-committed"))
    world.run_for(100)
    assert world.kernel(leader).writer._timestamps
    world.run_until(lambda: not world.kernel(leader).state.is_active)
    assert not world.kernel(leader).writer._timestamps
