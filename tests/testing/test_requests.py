"""Requests to nodes, without nodes: rows of their answers, who is asked, and why not."""

from datetime import timedelta

import pytest

from testing.errors import ClusterError, RefusedError, WarmError
from testing.requests import METADATA, from_any, missing, partition_of
from wire.errors import ErrorCode
from wire.messages import codec

new = codec.newest(METADATA, "response")


def row(partition):
    return new.MetadataResponsePartition(
        error_code=ErrorCode.none,
        partition_index=partition,
        leader_id=7,
        leader_epoch=0,
        replica_nodes=(7,),
        isr_nodes=(7,),
        offline_replicas=(),
    )


def metadata(**partitions):
    topics = tuple(
        new.MetadataResponseTopic(
            error_code=ErrorCode.none,
            name=name,
            topic_id=None,
            is_internal=False,
            partitions=tuple(row(number) for number in range(count)),
            topic_authorized_operations=0,
        )
        for name, count in partitions.items()
    )
    return new.MetadataResponse(
        throttle_time=timedelta(0), brokers=(), cluster_id="c", controller_id=7, topics=topics,
        error_code=ErrorCode.none,
    )  # fmt: skip


def test_the_row_of_a_partition():
    found = metadata(t=2, u=1)
    assert partition_of(found, "t", 1) == row(1)
    assert partition_of(found, "u", 1) is None
    assert partition_of(found, "v", 0) is None


@pytest.mark.parametrize(
    ("known", "reason"),
    [
        ({"t": 2}, "topic t has partitions 0 to 1, no 5"),
        ({"b": 1, "a": 1}, "there is no topic t; there are: a, b"),
        ({"t": 0}, "there is no topic t; there are: none"),
        (
            {f"t{n}": 1 for n in range(11)},
            "there is no topic t; there are: t0, t1, t10, t2, t3, t4, t5, t6, t7, t8, ...",
        ),
        (
            {f"t{n}": 1 for n in range(10)},
            "there is no topic t; there are: t0, t1, t2, t3, t4, t5, t6, t7, t8, t9",
        ),
    ],
)
def test_why_there_is_no_partition(known, reason):
    assert missing(metadata(**known), "t", 5) == reason


class Nodes:
    """Answers of nodes by port, one list each; the last one stays."""

    def __init__(self, **answers):
        self.answers = {int(port[1:]): found for port, found in answers.items()}

    def ask(self, port):
        found = self.answers[port]
        answer = found.pop(0) if len(found) > 1 else found[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


def test_the_first_node_that_has_an_answer():
    nodes = Nodes(p1=[OSError()], p2=[RefusedError("no topic")], p3=["yes"], p4=["not asked"])
    assert from_any([1, 2, 3, 4], nodes.ask, 0) == "yes"


def test_a_node_that_learns_of_it_later():
    nodes = Nodes(p1=[RefusedError("no topic"), OSError(), "yes"])
    assert from_any(iter([1]), nodes.ask, 60) == "yes"


@pytest.mark.parametrize(
    ("answers", "reason"),
    [
        ({}, "no node is up"),
        ({"p1": [OSError()], "p2": [OSError()]}, "no node answers"),
        ({"p1": [RefusedError("no topic")], "p2": [OSError()]}, "no topic"),
    ],
)
def test_nobody_has_an_answer(answers, reason):
    nodes = Nodes(**answers)
    with pytest.raises(RefusedError, match=f"^{reason}$"):
        from_any(nodes.answers, nodes.ask, 0)


def test_one_error_for_those_who_catch():
    assert issubclass(WarmError, ClusterError)
