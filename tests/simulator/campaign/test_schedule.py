"""Schedules as files: what was written is read again, what is none is named by its line."""

import json

import pytest

from simulator.campaign.draw import Options
from simulator.campaign.run import prepare
from simulator.campaign.schedule import (
    Schedule,
    ScheduleError,
    read_schedule,
    write_schedule,
)

OPTIONS = Options(duration_us=5_000_000, write_count=3, node_count=3)
SCHEDULE = Schedule(
    seed=4,
    options=OPTIONS,
    plan=prepare(4, OPTIONS)[2][:4],
    commit="abc",
    invariant="I7",
    text="made up",
)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run.jsonl"


def test_a_schedule_comes_back_as_it_was(path):
    assert SCHEDULE.plan
    write_schedule(path, SCHEDULE)
    assert read_schedule(path) == SCHEDULE
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert lines[0]["seed"] == 4
    assert [line["kind"] for line in lines[1:]] == [d.kind for d in SCHEDULE.plan]


HEAD = '{"schedule":1,"seed":4,"options":{"node_count":3}}'


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "run.jsonl:1: "),
        ("not json", "run.jsonl:1: JSON is malformed"),
        ('{"schedule":2,"seed":4}', "schedule 2, only 1 is known"),
        ('{"schedule":1}', "missing required field `seed`"),
        (HEAD + '\n{"at_us":1}', "run.jsonl:2: "),
        (
            HEAD + '\n{"at_us":1,"kind":"fire","targets":[1],"length_us":1}',
            "run.jsonl:2: unknown fault 'fire': kill, ",
        ),
        (
            HEAD + '\n{"at_us":1,"kind":"kill","targets":[9],"length_us":1}',
            "run.jsonl:2: no nodes [9], only [1, 2, 3",
        ),
        (
            HEAD + '\n{"at_us":-1,"kind":"kill","targets":[1],"length_us":1}',
            "run.jsonl:2: at_us is -1, allowed: 0 to 1000000000000",
        ),
        (
            HEAD + '\n{"at_us":1,"kind":"swizzle","targets":[],"length_us":1}',
            "run.jsonl:2: 'swizzle' without targets, of [1, 2, 3",
        ),
        (
            HEAD + '\n{"at_us":1,"kind":"kill","targets":[2,2],"length_us":1}',
            "run.jsonl:2: targets [2, 2] name a node twice",
        ),
        (
            HEAD + '\n{"at_us":1,"kind":"clock_jump","targets":[1],"length_us":1,"amount":-1}',
            "run.jsonl:2: amount is -1, allowed: 0 to 1000000",
        ),
        ('{"schedule":1,"seed":-1}', "run.jsonl:1: seed is -1, allowed: 0 to 18446744073709551615"),
        (
            '{"schedule":1,"seed":1,"options":{"draws":99}}',
            "run.jsonl:1: draws is 99, allowed: 1 to",
        ),
        (
            '{"schedule":1,"seed":1,"options":{"faults":["nope"]}}',
            "run.jsonl:1: unknown fault 'nope': kill, ",
        ),
        (
            HEAD + '\n{"at_us":1,"kind":"lost_messages","targets":[1],"length_us":1,'
            '"messages":"Fetsch request"}',
            "run.jsonl:2: no messages 'Fetsch request': Fetch request, ",
        ),
        (
            HEAD + '\n{"at_us":1,"kind":"even_voters","targets":[1],"length_us":1}',
            "run.jsonl:2: unknown fault 'even_voters': kill, power_failure, ",
        ),
    ],
)
def test_what_is_no_schedule_is_refused_with_its_line(path, content, said):
    path.write_text(content)
    with pytest.raises(ScheduleError) as caught:
        read_schedule(path)
    assert said in str(caught.value)
