"""Mutants of offsets in transactions: they copy a record twice, or not at all."""

from collections.abc import Callable
from typing import Any, Final

from msgspec.structs import replace

from coordinator.group import image
from coordinator.group.image import GroupsImage
from coordinator.group.offsets import commits, fetches
from coordinator.group.rules import accept_all
from simulator.faults.kinds import GROUPS_KINDS
from simulator.mutants.groups import MEMBERS
from simulator.mutants.records_mutant import by_seeds
from simulator.mutants.registry import Mutant, Patches

COPYING: Final = replace(
    MEMBERS,
    has_transactions=True,
    faults=tuple(kind for kind in GROUPS_KINDS if kind != "coordinator_move"),
)
"""One node, members that come and go, and a group that copies."""
RARE_SEEDS_MAX: Final = 60
"""Of mutants that need a partition to move in the middle of a transaction."""

Function = Callable[..., Any]


def _begins_before_open_offsets(patches: Patches) -> None:
    """A member is given the offset before one of an open transaction."""

    def make(original: Function) -> Function:
        def mutated(before: GroupsImage, fetch: Any, *given: Any) -> Any:
            return original(before, replace(fetch, requires_stable=False), *given)

        return mutated

    patches.function(fetches, "_row", make)


def _commits_offsets_at_once(patches: Patches) -> None:
    """Offsets of a transaction are committed when they come, not when it ends."""

    def make(_: Function) -> Function:
        def mutated(before: GroupsImage, group_id: str, at: Any, entry: Any, producer: int) -> Any:
            del producer
            return image._offsets_committed(before, {group_id: {at: entry}})  # noqa: SLF001

        return mutated

    patches.function(image, "_offset_pending", make)


def _commits_offsets_of_the_aborted(patches: Patches) -> None:
    """Offsets of a transaction are committed by any marker."""

    def make(original: Function) -> Function:
        def mutated(before: GroupsImage, producer_id: int, *, is_commit: bool) -> Any:
            del is_commit
            return original(before, producer_id, is_commit=True)

        return mutated

    patches.function(image, "apply_marker", make)


def _takes_offsets_of_anybody(patches: Patches) -> None:
    """Offsets of a transaction are taken from members of any generation, or of none."""

    def make(original: Function) -> Function:
        def mutated(before: GroupsImage, commit: Any, rules: Any) -> Any:
            if commit.committer.is_transactional:
                return accept_all
            return original(before, commit, rules)

        return mutated

    patches.function(commits, "_check", make)


COPIES: Final[tuple[Mutant, ...]] = (
    replace(
        by_seeds(419, _begins_before_open_offsets, "D4", options=COPYING), seeds_max=RARE_SEEDS_MAX
    ),
    by_seeds(420, _commits_offsets_at_once, "D6", options=COPYING),
    by_seeds(421, _commits_offsets_of_the_aborted, "D6", options=COPYING),
    replace(
        by_seeds(422, _takes_offsets_of_anybody, "D4", "D6", options=COPYING),
        seeds_max=RARE_SEEDS_MAX,
    ),
)
