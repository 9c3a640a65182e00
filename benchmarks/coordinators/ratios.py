"""Figures of kraftline in those of Kafka."""

from typing import Any, Final

OURS: Final = "kraftline"
PEER: Final = "kafka"
RATIO: Final = "x"


def with_ratios(rows: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The rows with one more that divides ours by Kafka's; as they are if Kafka was not measured.

    Of rates a large ratio is good, of times and of CPU a small one.
    """
    if PEER not in rows:
        return rows
    return {**rows, RATIO: ratios(rows[OURS], rows[PEER])}


def ratios(ours: dict[str, Any], peers: dict[str, Any]) -> dict[str, float]:
    """Quotient of every figure that both have and that is not 0 of the peer."""
    return {
        name: round(ours[name] / peers[name], 2)
        for name in ours
        if ours[name] is not None and peers.get(name)
    }
