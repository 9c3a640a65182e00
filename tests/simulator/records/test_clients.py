"""Clients of a simulated cluster: how they follow their topic."""

from itertools import chain
from types import SimpleNamespace
from uuid import UUID

from simulator.cluster.streams import Streams
from simulator.records.clients import PartitionClient
from simulator.records.world import RecordsWorld
from tests.simulator.records.worlds import key_of, quiet_records
from tests.simulator.worlds import quiet_settings
from wire.errors import ErrorCode

OLD, BETWEEN = UUID(int=1), UUID(int=2)


def told(topic_id, leader_epoch=3, code=ErrorCode.none):
    """Metadata of a topic with one partition."""
    row = SimpleNamespace(partition_index=0, leader_id=1, leader_epoch=leader_epoch)
    topic = SimpleNamespace(error_code=code, topic_id=topic_id, partitions=(row,))
    return SimpleNamespace(topics=(topic,))


class Asking(PartitionClient):
    """A client that is told what a test has for it, one answer after the other."""

    def __init__(self, world, *answers):
        super().__init__(world.cluster, 900, 0)
        self.answers = list(answers)
        self.changes = 0

    def ask_any(self, api_key, body, answered):
        answered(self.answers.pop(0))

    def topic_changed(self):
        self.changes += 1


def test_a_client_follows_to_topics_that_exist_alone():
    """A stale node tells of one that is deleted: it was left, or nobody was asked in its time."""
    world = quiet_records(until_us=500_000)
    new = UUID(bytes=bytes(key_of(world)[0]))
    answers = told(OLD, 7), told(new, 0), told(OLD, 8), told(BETWEEN, 8), told(new, 0)
    client = Asking(world, *answers)
    found = []
    for _ in range(3):
        client.find_leader(lambda: found.append((client.topic_id, client.leader_epoch)))
        world.run(world.scheduler.now_us + 300_000)
    assert found == [(OLD, 7), (new, 0), (new, 0)]
    assert (client.changes, client.answers) == (1, [])


def test_clients_tell_the_epoch_of_the_leader_that_answers_them():
    """If it was over when all in sync lost their power, what they are told is no promise."""
    settings = quiet_settings(voter_count=1, observer_count=0, hands_over=False, has_groups=True)
    world = RecordsWorld(settings, Streams(1), [])
    world.start()
    world.run(600_000)
    image, checks = world.ledger.image, world.record_checks
    of_topics = [
        [checks._of((bytes(image.topic_id_by_name[name]), number)) for number in (0, 1)]
        for name in ("records", "grouped")
    ]
    for epoch, is_promise in ((0, True), (1, False)):
        for of in chain(*of_topics):
            of.excuse(world.scheduler.now_us, epoch)
        world.run(world.scheduler.now_us + 500_000)
        for each in of_topics:
            assert any(of.values for of in each) is is_promise
            assert any(of.times_ms for of in each) is is_promise
