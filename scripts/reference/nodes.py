"""A controller and a broker in virtual time, for the pages about what nodes serve."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from msgspec.structs import replace
from prometheus_client.core import Metric

from broker.clients.client_quotas import (
    CONSUMER_BYTE_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    ClientRate,
)
from broker.records_counts import QuotaRates
from inspection.metrics import NodeMetrics
from inspection.running_node import RunningNode
from kernel.port import RecordsPort
from kernel.serving.dispatch import apis_of
from simulator.campaign.draw import RECORDS_SHORT
from simulator.campaign.run import prepare
from simulator.records.machine import RecordsMachine
from simulator.records.world import RecordsWorld
from wire.api_table import Api, ListenerKind

SEED: Final = 2
LIMIT_US: Final = 60_000_000
"""Virtual time in which brokers of a quorum without faults are unfenced."""
QUOTAS: Final = QuotaRates(
    clients=tuple(
        ClientRate(quota, "", "client", 1.0, 1.0)
        for quota in (PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE, REQUEST_PERCENTAGE)
    ),
    exempt_percent=1.0,
    leader=1.0,
    follower=1.0,
)
"""A rate of each quota: those without a client have no metric."""


class Served(NamedTuple):
    """Everything that nodes serve."""

    apis: Mapping[ListenerKind, Mapping[int, Api]]
    """By kind of listener and API key."""
    metrics: Mapping[str, tuple[Metric, ...]]
    """Families by the role of the node."""


def served() -> Served:
    """APIs and metrics of the active controller and a broker of a small cluster that is ready."""
    options = replace(RECORDS_SHORT, faults=(), node_count=1, observer_count=1)
    settings, streams, _ = prepare(SEED, options)
    world = RecordsWorld(replace(settings, is_combined=False), streams, [])
    controller, broker = world.nodes.values()
    world.start()
    is_ready = world.run_until(lambda: _is_ready(controller, broker), LIMIT_US)
    assert is_ready, "a quorum without faults becomes ready"
    assert broker.records is not None, "a broker has records"
    return Served(
        apis=apis_of(RecordsPort(broker.records.broker.apis)),
        metrics={"controllers": _families(controller), "brokers": _families(broker)},
    )


def _is_ready(controller: RecordsMachine, broker: RecordsMachine) -> bool:
    if controller.kernel is None or broker.kernel is None or broker.records is None:
        return False
    return controller.kernel.state.is_active and RunningNode(broker.kernel, broker.now).is_unfenced


def _families(machine: RecordsMachine) -> tuple[Metric, ...]:
    assert machine.kernel is not None, "it runs"
    counts = None
    if machine.records is not None:
        counts = replace(machine.records.broker.counts(), quotas=QUOTAS)
    collector = NodeMetrics(RunningNode(machine.kernel, machine.now))
    collector.text(counts)  # those of the records stay known
    return tuple(collector.collect())
