"""`quorum describe --elections`: elections of the quorum with their causes, as nodes saw them.

Kafka's protocol has no message for it, so the inspection API of each named node is asked. Each row
is what one node saw: only the former leader knows why it resigned.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from cli.arguments import UsageError
from cli.command import Output
from cli.connect import ClusterError, json_line

ANSWER_BYTES_MAX: Final = 4 * 1024 * 1024
HEADINGS: Final[tuple[str, ...]] = (
    "Epoch", "LeaderId", "Time", "LeaderlessMs", "Cause", "SeenBy", "SeenAs", "Evidence",
)  # fmt: skip
Fetch = Callable[[str, int], bytes]
"""Function from a URL and a limit of bytes to the body; raises UsageError."""


class Seen(msgspec.Struct, frozen=True):
    """An election as one node saw it."""

    cause: str
    evidence: str
    role: str
    lost_epoch: int
    lost_leader_id: int | None
    known_ms: int
    leaderless_ms: int | None


class Election(msgspec.Struct, frozen=True):
    """An election as the log of a node has it, with what the node saw."""

    epoch: int
    leader_id: int | None
    timestamp_ms: int | None
    seen: Seen | None


class Answer(msgspec.Struct, frozen=True):
    """The part of /v1/quorum that is shown."""

    node_id: int
    elections: list[Election]


def addresses(text: str) -> tuple[str, ...]:
    """URLs of `HOST:PORT,...`.

    Raises:
        UsageError: one of them has no port.
    """
    found = [part.strip().removeprefix("http://").rstrip("/") for part in text.split(",")]
    for address in found:
        host, _, port = address.rpartition(":")
        if not host or not port.isascii() or not port.isdigit():
            raise UsageError(f"--inspection-server: '{address[:80]}' is not HOST:PORT")
    return tuple(f"http://{address}" for address in found)


def describe_elections(urls: Sequence[str], *, as_json: bool, fetch: Fetch) -> Output:
    """Ask every node; one that does not answer is a line on standard error.

    Raises:
        ClusterError: no node answers.
    """
    answers, errors = [], []
    for url in urls:
        try:
            content = fetch(f"{url}/v1/quorum", ANSWER_BYTES_MAX)
            answers.append(msgspec.json.decode(content, type=Answer))
        except (UsageError, msgspec.DecodeError) as error:
            errors.append(f"{url}: {error}" if url not in str(error) else str(error))
    if not answers:
        raise ClusterError("\n".join(errors))
    text = json_line(as_object(answers)) if as_json else table(answers)
    return Output(text, "".join(f"{line}\n" for line in errors))


def _by_epoch(answers: Sequence[Answer]) -> dict[int, list[tuple[int, Election]]]:
    """Rows of each epoch, ascending: (node id, its election), by node id."""
    found: dict[int, list[tuple[int, Election]]] = {}
    for answer in sorted(answers, key=lambda answer: answer.node_id):
        for election in answer.elections:
            found.setdefault(election.epoch, []).append((answer.node_id, election))
    return dict(sorted(found.items()))


def table(answers: Sequence[Answer]) -> str:
    """A row for each node that saw an election; one without cause if none of them did."""
    rows = [HEADINGS]
    for epoch, elections in _by_epoch(answers).items():
        seen = [(node_id, one) for node_id, one in elections if one.seen is not None]
        rows += [_row(epoch, node_id, one) for node_id, one in seen or elections[:1]]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADINGS))]
    return "".join(
        "  ".join(f"{text:<{width}}" for text, width in zip(row, widths, strict=True)).rstrip()
        + "\n"
        for row in rows
    )


def _row(epoch: int, node_id: int, election: Election) -> tuple[str, ...]:
    leader = _text(election.leader_id)
    seen = election.seen
    if seen is None:
        return (str(epoch), leader, _instant(election.timestamp_ms), "-", "-", "-", "-", "-")
    return (
        str(epoch),
        leader,
        _instant(seen.known_ms),
        _text(seen.leaderless_ms),
        seen.cause,
        str(node_id),
        seen.role,
        seen.evidence,
    )


def _text(number: int | None) -> str:
    return "-" if number is None else str(number)


def _instant(timestamp_ms: int | None) -> str:
    if timestamp_ms is None:
        return "-"
    at = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def as_object(answers: Sequence[Answer]) -> dict[str, Any]:
    """The elections as one JSON value, each with what every node saw."""
    return {
        "elections": [
            {
                "epoch": epoch,
                "leader_id": elections[0][1].leader_id,
                "seen": [
                    {"node_id": node_id, **msgspec.structs.asdict(one.seen)}
                    for node_id, one in elections
                    if one.seen is not None
                ],
            }
            for epoch, elections in _by_epoch(answers).items()
        ]
    }
