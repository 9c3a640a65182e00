"""One run as one self-contained HTML page: swim lanes of the nodes over virtual time.

The page fetches nothing: the data stand in it (page.html beside this file draws them). Times are
virtual microseconds.
"""

import json
import re
from html import escape
from importlib import resources
from typing import Any, Final

from simulator.campaign.recording import Recording
from simulator.campaign.run import Outcome
from simulator.faults.decision import Decision
from simulator.faults.impact import Impact
from simulator.faults.kinds import GROUPS_KINDS, KINDS, RECORDS_KINDS

FULL_STOP: Final = "all invariants held"
PLACEHOLDER: Final = re.compile("@(SEED|CLASS|VERDICT|COMMIT|COMMAND|DATA)@")
NAMED_NODE: Final = re.compile(r"\bnode (\d+)")


def page_of(outcome: Outcome, recording: Recording, commit: str, command: str) -> str:
    """Make the page of a run.

    Args:
        outcome: the run's.
        recording: kept while it ran.
        commit: the code's.
        command: repeats the run.
    """
    literal = json.dumps(data_of(outcome, recording)).replace("<", "\\u003c")
    template = (
        resources.files("simulator.campaign").joinpath("page.html").read_text(encoding="utf-8")
    )
    verdict = FULL_STOP if outcome.invariant is None else outcome.text
    if not outcome.is_complete:
        verdict = f"stopped at event {outcome.event_count:,}; so far {FULL_STOP}"
    parts = {
        "SEED": f"{outcome.seed:#x}",
        "CLASS": "held" if outcome.invariant is None else "broken",
        "VERDICT": escape(verdict),
        "COMMIT": escape(commit),
        "COMMAND": escape(command),
        "DATA": literal,
    }
    return PLACEHOLDER.sub(lambda match: parts[match.group(1)], template)  # what is put in, stays


def data_of(outcome: Outcome, recording: Recording) -> dict[str, Any]:
    """Data that the script of the page reads."""
    settings = outcome.settings
    nodes = sorted(recording.roles)
    return {
        "nodes": nodes,
        "voters": settings.voter_count,
        "end": outcome.at_us,
        "faultsEnd": settings.duration_us,
        "violation": None if outcome.invariant is None else outcome.text,
        "violator": _violator(outcome.text, nodes) if outcome.invariant is not None else None,
        "roles": {number: recording.roles[number] for number in nodes},
        "highWatermarks": recording.high_watermarks,
        "logEnds": recording.log_ends,
        "ends": recording.ends,
        "faults": [
            _fault(decision, impact, min(outcome.at_us, settings.duration_us))
            for decision, impact in recording.faults
        ],
        "faultColours": {name: kind.colour for name, kind in KINDS.items()}
        | RECORDS_KINDS
        | GROUPS_KINDS,
        "messages": [list(message) for message in recording.messages],
        "operations": [
            [
                o.called_us,
                o.returned_us,
                o.client,
                " ".join(filter(None, (o.kind, o.name, o.value))),
                o.outcome,
                o.error or "",
                o.target,
            ]
            for o in recording.operations
        ],
        "messagesLeftOut": recording.messages_left_out,
        "settings": {name: getattr(settings, name) for name in settings.__struct_fields__},
        "counts": {
            "events": outcome.event_count,
            "virtual seconds": round(outcome.virtual_us / 1e6, 3),
            "elections": outcome.elections,
            "messages": outcome.messages,
            "writes acknowledged": outcome.acknowledged,
            "digest": f"{outcome.digest:08x}",
        },
        "eventsByKind": outcome.events_by_kind,
        "marks": outcome.marks,
    }


def _fault(decision: Decision, impact: Impact | None, end_us: int) -> list[Any]:
    """Row of a fault: [from, to, kind, nodes that it hit, how]; `end_us`: end of all faults."""
    at_us = decision.at_us
    if impact is None:
        planned = ", ".join(map(str, decision.targets))
        return [at_us, at_us, decision.kind, [], f"planned for {planned}, did nothing"]
    to_us = end_us if impact.length_us is None else at_us + impact.length_us
    return [at_us, max(at_us, min(to_us, end_us)), decision.kind, list(impact.nodes), impact.how]


def _violator(text: str, nodes: list[int]) -> int | None:
    """First node that a violation names, if it has a lane."""
    named = NAMED_NODE.search(text)
    return int(named[1]) if named is not None and int(named[1]) in nodes else None
