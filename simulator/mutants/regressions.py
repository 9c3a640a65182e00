"""Fixes of bugs that the simulator found, taken out again: it has to find them once more.

The seeds that found a bug may draw another run by now; others find it this way.
"""

from collections.abc import Callable
from typing import Any, Final

from msgspec.structs import replace

from kernel.lifecycle.folders import Folders
from simulator.mutants.registry import SHORT, Mutant, Patches

Original = Callable[..., Any]


def _drops_failed_folder_work(patches: Patches) -> None:
    """81d67f2: failed work on folders is not retried."""

    def make(original: Original) -> Original:
        def done(self: Folders, error: str | None) -> None:
            if error is not None:
                self._going.clear()
            original(self, None)

        return done

    patches.method(Folders, "done", make)


REGRESSIONS: Final = (
    Mutant(
        number=56,
        name="drops-failed-folder-work",
        text="failed work on folders is not retried (81d67f2 taken out)",
        expected=("liveness", "I20"),
        seeds_max=200,
        patch=_drops_failed_folder_work,
        options=replace(SHORT, faults=("disk_full",)),
    ),
)
