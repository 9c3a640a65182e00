"""All verdicts of a command line: the last line of output, and the exit code."""

from typing import Final

from simulator.mutants.hunt import State, Verdict

HELD: Final = 0
SURVIVED: Final = 1
BUDGET_OVER: Final = 3
UNJUDGED: Final = 255
"""A mutant does not fit the code, or a process of `--jobs` died."""
CRASHED_MAX: Final = 2
"""Number of mutants that may die by I20 only."""


class Tally:
    """Verdicts, and a mark for a missing one."""

    def __init__(self) -> None:
        self._keys: dict[State, list[str]] = {state: [] for state in State}
        self.is_unjudged = False
        """True: a mutant has no verdict, for a reason of the hunt's own."""

    def add(self, verdict: Verdict) -> None:
        """Add a verdict."""
        self._keys[verdict.state].append(verdict.mutant)

    @property
    def line(self) -> str:
        """Number of mutants in each state, with the keys of those that were not killed."""
        shown = []
        for state, keys in self._keys.items():
            named = f" ({', '.join(keys)})" if keys and state is not State.KILLED else ""
            shown.append(f"{len(keys)} {state}{named}")
        return ", ".join(shown)

    @property
    def complaint(self) -> str | None:
        """Reason why too many crashes are a failure; None: they are not too many."""
        crashed = self._keys[State.CRASHED]
        if len(crashed) <= CRASHED_MAX:
            return None
        named = ", ".join(crashed)
        return f"{len(crashed)} mutants died by I20 only ({named}), {CRASHED_MAX} at most may"

    @property
    def exit_code(self) -> int:
        """Exit code; a certain failure comes before a missing verdict."""
        if self._keys[State.SURVIVED] or self.complaint is not None:
            return SURVIVED
        if self.is_unjudged:
            return UNJUDGED
        return BUDGET_OVER if self._keys[State.OVER] else HELD
