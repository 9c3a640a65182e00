"""I8: what the loader of a node is given, once and whole."""

from metadata.loader import CommittedBatch, Loader
from metadata.records import ConfigRecord
from simulator.checks.metadata.application import LoaderWatch
from simulator.checks.metadata.ledger import Ledger
from tests.simulator.worlds import broken, follower, past_of, quiet_world

CONFIG = ConfigRecord(resource_type=2, resource_name="t", name="retention.ms", value="7")


def batch(base_offset, *records, count=None):
    end = base_offset + (len(records) if count is None else count)
    return CommittedBatch(base_offset, end, 1, 0, records)


def watched():
    ledger, loader = Ledger(), Loader()
    ledger.record_counts |= {0: 0, 1: 1, 2: 2}
    return ledger, loader, LoaderWatch(loader)


def test_batches_in_order_and_whole():
    ledger, loader, watch = watched()
    loader.commit(iter([batch(0, count=1), batch(1, CONFIG)]))
    loader.commit([batch(2, CONFIG, CONFIG)])
    assert loader.end_offset == 4
    assert watch.broken(ledger) is None


def test_a_record_too_many_or_too_few():
    for records, count in (((CONFIG, CONFIG), 2), ((), 0)):
        ledger, loader, watch = watched()
        loader.commit([batch(0, count=1), batch(1, *records, count=1)])
        told = watch.broken(ledger)
        assert told == f"it applied {count} records of 1 in the batch at 1"


def test_a_batch_that_is_left_out():
    ledger, loader, watch = watched()
    loader.commit([batch(0, count=1), batch(2, CONFIG, CONFIG)])
    assert watch.broken(ledger) == "it applies a batch at 2, it had applied 1"


def test_i8_a_node_that_was_given_too_much():
    world = quiet_world()
    machine, invariants = follower(world), world.invariants
    last = invariants.ledger.entries[-1].base_offset
    invariants._loaders[machine.id]._taken.append((last, 7))
    past_of(world, machine).applied -= 1
    assert "it applied 7 records of " in broken(world, machine, "I8")
