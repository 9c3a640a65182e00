"""Every decoder that takes bytes from outside: a short run here, longer ones with the mark `long`.

`python -m tests.fuzz --target T --cases N --seed S` runs more; inputs that were found are kept in
regressions.jsonl.
"""

import json
import struct
from pathlib import Path
from random import Random

import pytest

from tests.fuzz.engine import (
    LARGE_FACTOR,
    MEMORY_FACTOR,
    FoundError,
    Report,
    Target,
    check_memory,
    check_one,
    peak_bytes,
    run,
)
from tests.fuzz.mutation import mutated
from tests.fuzz.peer_target import Node
from tests.fuzz.registry import all_targets
from wire.messages.codec import decode_request
from wire.primitives import encode_unsigned_varint

TARGETS = all_targets()
REGRESSIONS = [
    json.loads(line)
    for line in (Path(__file__).parent / "regressions.jsonl").read_text().splitlines()
]
SHORT_CASES = 50
LONG_CASES = 20_000


@pytest.mark.parametrize("name", TARGETS)
def test_seeds_and_a_few_inputs(name):
    target = TARGETS[name]
    report = run(target, max(10, int(SHORT_CASES * min(target.weight, 2))), seed=0)
    assert report.accepted > 0, "a target that refuses everything tests nothing"


@pytest.mark.long
@pytest.mark.parametrize("name", TARGETS)
def test_many_inputs(name):
    target = TARGETS[name]
    run(target, int(LONG_CASES * target.weight), seed=1)


@pytest.mark.parametrize("row", REGRESSIONS, ids=lambda row: row["found"])
def test_what_was_found_once(row):
    target, data = TARGETS[row["target"]], bytes.fromhex(row["input"])
    check_one(target, data, Random(0), Report("once"))
    check_memory(target, data)


# ---- the engine itself: every property can fail ----------------------------------------------


def refused(_data):
    raise ValueError("no")


def test_an_undeclared_exception_is_found():
    with pytest.raises(FoundError, match="ValueError: no"):
        run(Target("t", [b"x"], refused, (KeyError,)), 1, 0)
    report = run(Target("t", [b"x"], refused, (ValueError,)), 5, 0)
    assert (report.cases, report.accepted, report.kinds) == (5, 0, {"ValueError": 5})


def test_a_broken_round_trip_is_found():
    def verify(value, data, rng):
        assert value == b"y"

    with pytest.raises(FoundError, match="accepted, then AssertionError"):
        run(Target("t", [b"x"], lambda data: data, (), verify), 1, 0)


def test_slow_inputs_are_found():
    def slow(data):
        return sum(range(200_000)) if data == b"slow" else None

    with pytest.raises(FoundError, match="s of CPU"):
        run(Target("t", [b"slow"], slow, (), cpu_seconds_max=1e-5), 1, 0)


def test_memory_that_a_length_claims_is_found():
    with pytest.raises(FoundError, match="bytes of memory for 1 of input"):
        run(Target("t", [b"x"], lambda data: len(bytes(1 << 22)), ()), 1, 0)


INTS = range(1_000, 101_000)
TINY_INTS = struct.pack(f">bihci{len(INTS)}ii", 0, 1, 1, b"t", len(INTS), *INTS, 1_000)


def tiny_entities(count):
    return encode_unsigned_varint(count + 1) + b"\2\1\1\0" * count + b"\0\0\0"


@pytest.mark.parametrize(
    ("key", "version", "body"),
    [
        pytest.param(43, 1, TINY_INTS, id="ElectLeaders"),
        pytest.param(32, 4, tiny_entities(20_000), id="DescribeConfigs"),
        pytest.param(32, 4, tiny_entities(50_000), id="more", marks=pytest.mark.long),
    ],
)
def test_a_large_body_of_tiny_things_takes_memory_in_proportion(key, version, body):
    target = Target("large", [body], lambda data: decode_request(key, version, data), ())
    assert target.decode(body) is not None
    peak = peak_bytes(target, body)
    assert MEMORY_FACTOR * len(body) < peak < LARGE_FACTOR * len(body)


def test_a_generated_input_must_be_accepted():
    target = Target("t", [b"x"], refused, (ValueError,), generate=lambda rng: b"fresh")
    with pytest.raises(FoundError, match="a generated input was refused"):
        run(target, 200, 0)


def test_the_same_seed_gives_the_same_inputs():
    def inputs(seed):
        seen = []
        run(Target("t", [b"some bytes", b"others"], seen.append, ()), 64, seed)
        return seen

    assert inputs(1) == inputs(1) != inputs(2)


def test_a_peer_may_end_the_node_by_two_leaders_alone():
    node = Node()
    # Found by counting up; whoever changes what the peer answers finds another in seconds.
    assert node.receive(bytes.fromhex("0ed4")) is None
    assert node.receive(b"after that") is not None


def test_mutations_reach_every_kind_of_change():
    rng, data = Random(3), bytes(range(64))
    lengths = [len(mutated(data, [data], rng)) for _ in range(500)]
    assert min(lengths) < 10
    assert max(lengths) > 70
    assert any(mutated(data, [data], rng) == data[:n] for n in range(64) for _ in range(20))
