"""Tests that may kill a mutant: those that pass alone without it, warm or cold."""

from scripts.mutation import forks as mutation_forks
from scripts.mutation.forks import Job, Verdict
from scripts.mutation.points import Point
from scripts.mutation.worker import confirmed

MUTANT = Point("raft/limits.py", "", "constant", "7", "8", 0, 3, 3, True, ("MAXIMUM",))


class Forks:
    """Runs of jobs, by the tests that fail with the mutant and those that fail without."""

    def __init__(self, killing: set[str], broken: set[str]) -> None:
        self.killing = killing
        self.broken = broken
        self.ran: list[tuple[bool, list[str]]] = []

    def run(self, job: Job) -> Verdict:
        names = [test.id for test in job.tests]
        self.ran.append((job.point is not None, names))
        failing = self.broken if job.point is None else self.killing | self.broken
        killer = next((name for name in names if name in failing), "")
        return Verdict("killed" if killer else "survived", killer)


def job(*names: str) -> Job:
    return Job(MUTANT, [mutation_forks.Test(name, 0.1) for name in names])


def test_a_test_that_fails_without_the_mutant_kills_none() -> None:
    forks, trusted = Forks({"c"}, {"a"}), {}
    assert confirmed(job("a", "b", "c"), forks.run, trusted).killer == "c"
    assert forks.ran == [
        (True, ["a", "b", "c"]), (False, ["a"]), (True, ["b", "c"]), (False, ["c"]),
    ]  # fmt: skip
    forks.ran.clear()
    assert confirmed(job("c", "a"), forks.run, trusted).killer == "c"
    assert forks.ran == [(True, ["c", "a"])]  # known from the first mutant


def test_a_mutant_with_no_other_test_survives() -> None:
    forks = Forks(set(), {"a"})
    assert confirmed(job("a"), forks.run, {}) == Verdict("survived")
    assert forks.ran == [(True, ["a"]), (False, ["a"])]


def test_a_mutant_that_cannot_be_imported_is_killed_by_no_test() -> None:
    verdict = Verdict("killed", "")
    assert confirmed(job("a"), lambda _: verdict, {}) is verdict
