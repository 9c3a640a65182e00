"""Changes of a history whose effect on the verdict is known without knowing the verdict.

The quick run looks at a part; `scripts/test --all` at many more (marker `long`).
"""

import random

import msgspec
import pytest

from jepsen.linearizability import check
from jepsen.linearizability.history import INFO, OK
from tests.jepsen.sequential import OBJECTS, LogObject, RegisterObject, random_operations

QUICK_CASES = 30
LONG_CASES = 2_000  # for each of 8 objects and 6 changes
NAMES = [type(each).__name__ for each in OBJECTS]
replace = msgspec.structs.replace


def verdict(sequential, operations) -> str:
    return check(operations, sequential.model, clock=None).verdict


def random_case(sequential, rng):
    """A history of up to 14 operations; in two thirds one or two answers are changed."""
    operations = random_operations(
        sequential, rng, count=rng.randrange(2, 15), clients=4, crashes=rng.choice((0, 0.2))
    )
    for _ in range(rng.randrange(3)):
        number = rng.randrange(len(operations))
        if operations[number].end is not None:
            changed = sequential.corrupt(operations[number], rng)
            operations[number] = replace(operations[number], **changed)
    return operations


def renamed_clients(sequential, operations, rng):
    """Same verdict: clients have no meaning. Times stretched and shifted have none either."""
    names = list(range(100, 100 + 100))
    rng.shuffle(names)
    return [
        replace(
            each,
            process=names[each.process],
            call=7 * each.call + 1000,
            end=None if each.end is None else 7 * each.end + 1000,
        )
        for each in operations
    ]


def renamed_values(sequential, operations, rng):
    """Same verdict: one-to-one renaming of what is written and read."""

    def rename(value):
        if isinstance(value, str):
            return type(value)(value.translate(str.maketrans("abcxy", "pqrvw")))
        if isinstance(value, dict):
            return {rename(key): rename(item) for key, item in value.items()}
        return [rename(item) for item in value] if isinstance(value, list) else value

    return [
        replace(each, value=rename(each.value), output=rename(each.output), key=rename(each.key))
        for each in operations
    ]


def shortened(sequential, operations, rng):
    """Only ok -> illegal: a shorter interval allows fewer orders."""
    return [
        replace(
            each, call=(call := rng.randint(each.call, each.end)), end=rng.randint(call, each.end)
        )
        if each.end is not None and rng.random() < 0.5
        else each
        for each in operations
    ]


def lengthened(sequential, operations, rng):
    """Only illegal -> ok: every operation gets a process of its own, so that it may overlap."""
    return [
        replace(
            each,
            process=number,
            call=each.call - rng.randrange(4),
            end=None if each.end is None else each.end + rng.randrange(4),
        )
        for number, each in enumerate(operations)
    ]


def without_a_read(sequential, operations, rng):
    """Only illegal -> ok."""
    reads = [
        each
        for each in operations
        if each.f in ("read", "read-from", "get", "get-many", "exists", "list")
    ]
    gone = rng.choice(reads) if reads else None
    return [each for each in operations if each is not gone]


def with_a_lost_answer(sequential, operations, rng):
    """Only illegal -> ok: an operation that never returned allows more orders."""
    number = rng.randrange(len(operations))
    return [
        replace(each, process=1000 + index, end=None, type=INFO, output=None, error=None)
        if index == number
        else replace(each, process=index)
        for index, each in enumerate(operations)
    ]


SAME, TO_OK, TO_ILLEGAL = "same", "to ok", "to illegal"
CHANGES = [
    (renamed_clients, SAME),
    (renamed_values, SAME),
    (shortened, TO_ILLEGAL),
    (lengthened, TO_OK),
    (without_a_read, TO_OK),
    (with_a_lost_answer, TO_OK),
]


def is_comparable(sequential, change) -> bool:
    """Ids of topics are told by answers: without one, other answers have another meaning."""
    ids_are_answers = sequential.model == "topic-set"
    return not (ids_are_answers and change in (without_a_read, with_a_lost_answer))


def compare(sequential, change, effect, seeds) -> int:
    """Number of verdicts that changed; fails at the first that may not have."""
    moved = 0
    for seed in seeds:
        rng = random.Random(seed)
        operations = random_case(sequential, rng)
        before = verdict(sequential, operations)
        after = verdict(sequential, change(sequential, operations, rng))
        moved += before != after
        if before != after:
            allowed = {SAME: (), TO_OK: (OK,), TO_ILLEGAL: ("illegal",)}[effect]
            assert after in allowed, (seed, before, after, operations)
    return moved


PAIRS = [
    pytest.param(sequential, change, effect, id=f"{name}-{change.__name__}")
    for sequential, name in zip(OBJECTS, NAMES, strict=True)
    for change, effect in CHANGES
    if is_comparable(sequential, change)
]


@pytest.mark.parametrize(("sequential", "change", "effect"), PAIRS)
def test_a_change_moves_the_verdict_one_way_only(sequential, change, effect):
    compare(sequential, change, effect, range(QUICK_CASES))


@pytest.mark.long
@pytest.mark.parametrize(("sequential", "change", "effect"), PAIRS)
def test_a_change_moves_the_verdict_one_way_only_on_many_histories(sequential, change, effect):
    moved = compare(sequential, change, effect, range(QUICK_CASES, QUICK_CASES + LONG_CASES))
    assert effect == SAME or moved > 0


@pytest.mark.parametrize("count", [QUICK_CASES, pytest.param(LONG_CASES, marks=pytest.mark.long)])
@pytest.mark.parametrize("sequential", OBJECTS, ids=NAMES)
def test_splitting_by_key_and_shortcuts_do_not_change_the_verdict(sequential, count):
    for seed in range(count):
        rng = random.Random(seed)
        operations = random_case(sequential, rng)
        expected = verdict(sequential, operations)
        for options in ({"split": False}, {"prune": False}):
            found = check(operations, sequential.model, clock=None, **options).verdict
            assert found == expected, (seed, options)


@pytest.mark.parametrize("sequential", [RegisterObject(), LogObject()], ids=["register", "log"])
def test_swapping_the_answers_of_two_reads_usually_breaks_a_history(sequential):
    broken = swapped = 0
    for seed in range(300):
        rng = random.Random(seed)
        operations = random_operations(sequential, rng, count=14, clients=3, crashes=0)
        reads = [n for n, each in enumerate(operations) if each.f == "read"]
        different = [
            (a, b) for a in reads for b in reads if operations[a].output != operations[b].output
        ]
        if not different:
            continue
        a, b = rng.choice(different)
        answers = operations[a].output, operations[b].output
        operations[a] = replace(operations[a], output=answers[1])
        operations[b] = replace(operations[b], output=answers[0])
        swapped += 1
        broken += verdict(sequential, operations) != OK
    assert swapped > 100
    assert broken > 0.6 * swapped, f"{broken=} {swapped=}"
