"""Classic groups in DescribeGroups and ListGroups, JoinGroup by its versions."""

from datetime import timedelta
from typing import Any

import pytest

from coordinator.group.classic import responses, views
from coordinator.group.classic.requests import join_of
from coordinator.group.image import SimpleGroup
from tests.coordinator.group.classic.classic_story import GROUP, RANGE, Story
from wire.api_keys import JOIN_GROUP
from wire.errors import ErrorCode
from wire.messages import codec


def row(described: Any) -> tuple[Any, ...]:
    return (
        described.group_id,
        described.group_state,
        described.protocol_type,
        described.protocol_data,
        [
            (
                member.member_id,
                member.group_instance_id,
                member.client_id,
                member.client_host,
                member.member_metadata,
                member.member_assignment,
            )
            for member in described.members
        ],
    )


def test_described_group_shows_its_protocol_while_it_is_stable() -> None:
    story = Story()
    first, second = story.stable(None, "two")
    assert row(views.described(story.group)) == (
        GROUP,
        "Stable",
        "consumer",
        "range",
        [
            (first, None, "c", "/127.0.0.1", b"r", first.encode()),
            (second, "two", "c", "/127.0.0.1", b"r", second.encode()),
        ],
    )
    story.leave(first)
    assert row(views.described(story.group)) == (
        GROUP,
        "PreparingRebalance",
        "consumer",
        "",
        [(second, "two", "c", "/127.0.0.1", b"", second.encode())],
    )
    assert views.described(story.group).error_code is ErrorCode.none


def test_described_simple_group() -> None:
    story = Story()
    story.image[GROUP] = SimpleGroup()
    assert row(views.described(story.group)) == (GROUP, "Empty", "", "", [])


def test_group_that_is_not_found_is_dead_for_old_clients() -> None:
    old = views.not_found("x", version=5, message="Group x not found.")
    assert (row(old), old.error_code, old.error_message) == (
        ("x", "Dead", "", "", []),
        ErrorCode.none,
        None,
    )
    new = views.not_found("x", version=6, message="Group x not found.")
    assert (row(new), new.error_code, new.error_message) == (
        ("x", "Dead", "", "", []),
        ErrorCode.group_id_not_found,
        "Group x not found.",
    )


def test_refused_group() -> None:
    refused = views.refused("x", ErrorCode.not_coordinator)
    assert row(refused) == ("x", "", "", "", [])
    assert (refused.error_code, refused.error_message) == (ErrorCode.not_coordinator, None)


def test_listed_group() -> None:
    story = Story()
    story.stable(None)
    listed = views.listed(story.group)
    assert (listed.group_id, listed.protocol_type, listed.group_state, listed.group_type) == (
        GROUP,
        "consumer",
        "Stable",
        "classic",
    )
    story.image[GROUP] = SimpleGroup()
    story.groups.forget(GROUP)
    assert views.listed(story.group).protocol_type == ""


# JoinGroup as its versions mean it


@pytest.mark.parametrize(
    ("version", "rebalance_timeout_ms", "is_id_required", "can_skip_assignment"),
    [
        (0, 10_000, False, False),
        (1, 60_000, False, False),
        (3, 60_000, False, False),
        (4, 60_000, True, False),
        (8, 60_000, True, False),
        (9, 60_000, True, True),
    ],
)
def test_join_by_version(
    version: int,
    rebalance_timeout_ms: int,
    is_id_required: bool,
    can_skip_assignment: bool,
) -> None:
    new = codec.newest(JOIN_GROUP, "request")
    body = new.JoinGroupRequest(
        group_id="g",
        session_timeout=timedelta(seconds=10),
        rebalance_timeout=timedelta(seconds=60),
        member_id="m",
        group_instance_id="i",
        protocol_type="consumer",
        protocols=tuple(new.JoinGroupRequestProtocol(name="range", metadata=b"r") for _ in "1"),
        reason=None,
    )
    join = join_of(body, version=version, client_id=None, host="127.0.0.1")
    assert join.rebalance_timeout_ms == rebalance_timeout_ms
    assert join.is_id_required is is_id_required
    assert join.can_skip_assignment is can_skip_assignment
    assert (join.group_id, join.member_id, join.group_instance_id) == ("g", "m", "i")
    assert (join.client_id, join.client_host) == ("", "/127.0.0.1")
    assert (join.session_timeout_ms, join.protocol_type) == (10_000, "consumer")
    assert join.protocols == RANGE
    assert join_of(body, version=9, client_id="c", host="h").client_id == "c"


def test_refusals() -> None:
    join = responses.join_error(ErrorCode.not_coordinator, "m")
    assert (join.generation_id, join.protocol_type, join.protocol_name) == (-1, None, None)
    assert (join.leader, join.member_id, join.members) == ("", "m", ())
    sync = responses.sync_error(ErrorCode.not_coordinator)
    assert (sync.protocol_type, sync.protocol_name, sync.assignment) == (None, None, b"")
    leave = responses.leave_error(ErrorCode.not_coordinator)
    assert (leave.error_code, leave.members) == (ErrorCode.not_coordinator, ())
    assert responses.heartbeat(ErrorCode.none).error_code is ErrorCode.none
