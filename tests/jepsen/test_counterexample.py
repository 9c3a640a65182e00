"""Counterexamples are illegal themselves, small, and drawn on a page that needs nothing else."""

import json
import random
import re

import msgspec
import pytest

from jepsen.linearizability import Event, History, Operation, check, explain, history_of
from jepsen.linearizability.models import model_named
from jepsen.linearizability.picture import Annotation, nemesis_annotations, page_of
from tests.jepsen.sequential import OBJECTS, random_operations

STALE = [
    Operation(process=0, f="write", value=1, call=0, end=10),
    Operation(process=1, f="read", output=1, call=5, end=15),
    Operation(process=0, f="write", value=2, call=20, end=30),
    Operation(process=1, f="read", output=2, call=31, end=35),
    Operation(process=2, f="read", output=1, call=40, end=50),
    Operation(process=0, f="write", value=3, call=60, end=70),
    Operation(process=1, f="read", output=3, call=71, end=75),
]


def test_a_stale_read_is_reduced_to_three_operations():
    found = explain(history_of(STALE, source="run"), "cas-register")
    assert found is not None
    assert (found.operation, found.operations, found.is_minimal) == (4, (0, 2, 4), True)
    assert found.removed == (1, 3)
    assert found.previous_ok == 2
    (configuration,) = found.configurations
    assert configuration.state == "2"
    assert configuration.refused == (("read -> 1", "impossible in this state"),)
    assert found.paths == ((0, 2),)
    assert found.text()[1] == "  process 0 [0, 10] write 1 (run:1)"


def test_a_legal_history_has_no_counterexample():
    assert explain(history_of(STALE[:4]), "cas-register") is None


def test_two_creates_with_one_id_are_the_counterexample():
    creates = [
        Operation(process=n, f="create", value=[name, None], output=[name, "u"], call=n, end=n)
        for n, name in enumerate("st")
    ]
    found = explain(history_of(creates), "topic-set")
    assert found is not None
    assert found.operations == (0, 1)
    assert found.lines[0] == "id u stands in answers for s and for t"


def corrupted(sequential, rng):
    operations = random_operations(sequential, rng, count=25, clients=4, crashes=0.1)
    return [
        msgspec.structs.replace(each, **sequential.corrupt(each, rng))
        if each.end is not None and rng.random() < 0.1
        else each
        for each in operations
    ]


@pytest.mark.parametrize("sequential", OBJECTS, ids=lambda each: type(each).__name__)
def test_a_counterexample_is_illegal_by_itself_and_minimal(sequential):
    rng = random.Random(11)
    seen = 0
    while seen < 3:
        history = history_of(corrupted(sequential, rng))
        result = check(history, sequential.model)
        found = explain(history, sequential.model, result=result, clock=lambda: 0.0)
        assert (found is None) == (result.verdict == "ok")
        if found is None or not result.partitions:
            continue
        seen += 1
        lost = set(found.never_returned)
        part = [
            msgspec.structs.replace(
                history.operations[index],
                process=index,
                end=None,
                type="info",
                output=None,
                error=None,
            )
            if index in lost
            else msgspec.structs.replace(history.operations[index], process=index)
            for index in found.operations
        ]
        if sequential.model != "topic-set":  # an id whose create was left out has another meaning
            assert check(part, sequential.model).verdict == "illegal"
            without_last = [each for each in part if each.process != found.operation]
            assert len(without_last) == len(part) - 1
        assert found.is_minimal
        assert len(found.operations) < 12
        assert set(found.operations).isdisjoint(found.removed)


def page_data(page):
    literal = re.search(r"^const DATA = (.*);$", page, re.MULTILINE)
    assert literal is not None
    return json.loads(literal.group(1))


def drawn(history, model="cas-register", **more):
    made = model_named(model)
    result = check(history, made)
    found = explain(history, made, result=result)
    assert found is not None
    return page_of(history, made, result, found, **more)


def test_the_page_holds_its_data_in_porcupines_shape():
    page = drawn(history_of(STALE))
    small, whole = page_data(page)["Partitions"]
    assert len(small["History"]) == 3
    assert len(whole["History"]) == 7
    assert set(whole["History"][0]) == {
        "ClientId", "Start", "OriginalStart", "End", "OriginalEnd", "Description", "Metadata",
    }  # fmt: skip
    assert all(box["Start"] % 100 == 0 and box["End"] % 100 == 0 for box in whole["History"])
    for index, number in whole["Largest"].items():
        steps = whole["PartialLinearizations"][number]
        assert int(index) in [step["Index"] for step in steps]
    assert small["PartialLinearizations"] == [
        [{"Index": 0, "StateDescription": "1"}, {"Index": 1, "StateDescription": "2"}]
    ]
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "")


def test_nothing_in_a_history_can_leave_the_data_of_the_page():
    evil = "</script><script>alert(1)</script><!--"
    operations = [
        Operation(process=0, f="put", value=evil, call=0, end=1, key="k"),
        Operation(process=0, f="get", output="", call=2, end=3, key="k"),
    ]
    page = drawn(history_of(operations, source="<b>"), "kv")
    assert page.count("<script>") == 1
    assert page.count("</script>") == 1
    assert "<!--" not in page
    assert "<b>" not in page


def test_faults_are_spans_from_their_start_to_their_end():
    def event(process, kind, f, time, value=None):
        return Event(process=process, type=kind, f=f, time=time, value=value)

    events = [
        event("nemesis", "info", "start-partition", 5, "n1"),
        event(0, "invoke", "write", 6, 1),
        event("nemesis", "info", "kill", 7),
        event(0, "ok", "write", 8, 1),
        event("nemesis", "info", "stop-partition", 9),
        event(0, "invoke", "read", 10),
        event(0, "ok", "read", 20, 3),
    ]
    spans = nemesis_annotations(History(events))
    assert [(each.description, each.start, each.end) for each in spans] == [
        ("start-partition", 5, 9),
        ("kill", 7, 20),
    ]
    role = Annotation(tag="node 1", start=6, end=8, description="leader, epoch 3")
    data = page_data(drawn(History(events), annotations=[role]))
    assert [each["Tag"] for each in data["Annotations"]] == ["nemesis", "nemesis", "node 1"]
    assert data["Annotations"][0]["BackgroundColor"] == "#d7c9f0"
