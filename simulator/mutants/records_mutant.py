"""Seeds and replacements that mutants of the data plane share."""

from collections.abc import Callable
from typing import Any, Final

from msgspec.structs import replace

from simulator.campaign.draw import RECORDS_STANDARD, Options
from simulator.mutants.registry import Mutant, Patches

MANY_ENDS: Final = replace(
    RECORDS_STANDARD,
    node_count=3,
    observer_count=0,
    faults=("kill", "terminate", "depose_leader", "partition", "kill_at_operation"),
)
"""Faults that move leaders and lose no power."""
CLEAN_ENDS: Final = replace(MANY_ENDS, faults=("terminate",))
SEEDS_MAX: Final = 20
SCENARIO: Final = "scenario"
"""Killer of a mutant that changes what a scenario says."""

Function = Callable[..., Any]
Make = Callable[[Function], Function]


def returning(value: object) -> Make:
    """A replacement that does nothing and returns a value."""

    def make(_: Function) -> Function:
        def mutated(*_: object, **__: object) -> object:
            return value

        return mutated

    return make


def with_named(**changed: object) -> Make:
    """A replacement that gives other values for these arguments."""

    def make(original: Function) -> Function:
        def mutated(*given: object, **named: object) -> object:
            return original(*given, **(named | changed))

        return mutated

    return make


def by_seeds(
    number: int, patch: Callable[[Patches], None], *expected: str, options: Options = MANY_ENDS
) -> Mutant:
    """A mutant that drawn runs find, by one of the invariants."""
    return _mutant(number, patch, expected, SEEDS_MAX, options, None)


def by_scenario(number: int, patch: Callable[[Patches], None], scenario: str) -> Mutant:
    """A mutant that changes what a scenario in tests/scenarios/records says."""
    return _mutant(number, patch, (SCENARIO,), 1, MANY_ENDS, scenario)


def _mutant(
    number: int,
    patch: Callable[[Patches], None],
    expected: tuple[str, ...],
    seeds_max: int,
    options: Options,
    scenario: str | None,
) -> Mutant:
    assert patch.__doc__ is not None, f"{patch=}"
    text = patch.__doc__.removesuffix(".")
    return Mutant(
        number=number,
        name=patch.__name__.strip("_").replace("_", "-"),
        text=text[0].lower() + text[1:],
        expected=expected,
        seeds_max=seeds_max,
        patch=patch,
        options=options,
        scenario=scenario,
    )
