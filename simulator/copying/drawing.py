"""Decisions of a seed about the group that copies."""

from random import Random
from typing import Final

import msgspec
from msgspec.structs import replace

from simulator.checks.partitions.transactions import TransactionChecks
from simulator.records.clients import Cluster
from simulator.records.transactions.requests import EPOCH_BUMP_VERSION
from simulator.records.transactions.session import SessionRules
from simulator.records.transactions.workload import TOPIC

OLDER_SHARE: Final = 0.25
"""Share of members with an older client where newer ones may be."""
TIMEOUTS_MS: Final = (2_000, 4_000, 8_000)


class Copying(msgspec.Struct, frozen=True, kw_only=True):
    """The group that copies, before its members are drawn."""

    cluster: Cluster
    """Of the topic that is written to."""
    version: int
    """transaction.version of the cluster."""
    checks: TransactionChecks

    @property
    def rng(self) -> Random:
        """Its own source of chance."""
        return self.cluster.rng

    @property
    def is_undecided(self) -> bool:
        """True if decisions may be lost: offsets may wait for the end of a transaction for ever."""
        return self.checks.is_excused

    def rules_of(self, host: int) -> SessionRules:
        """Draw the processes of one member's place."""
        is_older = self.rng.random() < OLDER_SHARE
        return SessionRules(
            transactional_id=f"copy-{host}",
            host=host,
            is_old=self.version < EPOCH_BUMP_VERSION or is_older,
            timeout_ms=self.rng.choice(TIMEOUTS_MS),
        )


def copying_of(cluster: Cluster, rng: Random, version: int, checks: TransactionChecks) -> Copying:
    """The group of a run, in the topic of the other transactions."""
    return Copying(cluster=replace(cluster, topic=TOPIC, rng=rng), version=version, checks=checks)
