"""Mutants of what no check saw before a review asked: what is published, and records too many."""

from collections.abc import Callable
from typing import Any, Final

from kernel.kernel import Kernel
from metadata.records import ConfigRecord
from quorum_controller.result import Draft
from raft.state import RaftState
from simulator.mutants.registry import Mutant, Patches

Original = Callable[..., Any]
_PUBLISHED_MAX: Final = 12


def _stops_publishing(patches: Patches) -> None:
    """A process applies what is committed and tells its publishers of the first twelve changes."""

    def make(original: Original) -> Original:
        def publish(self: Kernel, image: Any, delta: Any) -> None:
            count = vars(self)["_published_count"] = vars(self).get("_published_count", 0) + 1
            if count <= _PUBLISHED_MAX:
                original(self, image, delta)

        return publish

    patches.method(Kernel, "_publish", make)


def _writes_configs_twice(patches: Patches) -> None:
    """Every change of a config becomes two equal records."""

    def make(original: Original) -> Original:
        def emit(self: Draft, record: Any) -> None:
            original(self, record)
            if type(record) is ConfigRecord:
                original(self, record)

        return emit

    patches.method(Draft, "emit", make)


def _observers_forget_epochs(patches: Patches) -> None:
    """A node that is no voter writes no quorum-state."""

    def make(original: Original) -> Original:
        def persist_election(self: RaftState) -> None:
            if self.is_voter:
                original(self)

        return persist_election

    patches.method(RaftState, "persist_election", make)


BLIND_SPOTS: Final = (
    Mutant(
        number=50,
        name="stops-publishing",
        text="a node applies what is committed and stops to publish it",
        expected=("I17",),
        seeds_max=50,
        patch=_stops_publishing,
    ),
    Mutant(
        number=51,
        name="writes-configs-twice",
        text="a change of a config becomes two equal records",
        expected=("I12",),
        seeds_max=50,
        patch=_writes_configs_twice,
    ),
    Mutant(
        number=52,
        name="observers-forget-epochs",
        text="a node that is no voter does not write its epoch to quorum-state",
        expected=("I2",),
        seeds_max=50,
        patch=_observers_forget_epochs,
    ),
)
