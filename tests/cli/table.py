"""The table of docs/cli.md: which recorded outputs of Kafka's tools are ours, and why others not.

`python -m tests.cli.table` prints it.
"""

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tests.cli.golden import outputs, verdicts

TOOLS = {
    "TopicCommand": ("topics", "kafka-topics"),
    "ConfigCommand": ("configs", "kafka-configs"),
    "MetadataQuorumCommand": ("quorum", "kafka-metadata-quorum"),
    "FeatureCommand": ("features", "kafka-features"),
    "ReassignPartitionsCommand": ("reassign", "kafka-reassign-partitions"),
    "LeaderElectionCommand": ("leader-election", "kafka-leader-election"),
    "AclCommand": ("acls", "kafka-acls"),
    "ClusterTool": ("cluster", "kafka-cluster"),
    "StorageTool": ("storage", "kafka-storage"),
}
APART = {
    "java": "Java's log lines, exceptions and the echo of the command line on standard error",
    "usage": "usage text after the first line",
    "order": "order: Kafka's is that of a hash map, ours by name",
    "ids": "ids drawn by chance",
    "folders": "log directories of replicas: 3.9.1 does not ask for them; one was offline there",
    "chance": "replicas of a proposal, drawn by chance",
    "tabs": "tabs of 3.9.1 where 4.3.1 and we have blanks",
    "3.9": "words of 3.9.1 that 4.3.1 and we have otherwise",
    "moment": "times of the leader: the answer is of some ms before or after",
    "mark": "high watermark: a record later in the answer",
}

COLUMNS = {
    "equal": "equal",
    "equal apart from": "apart",
    "own times": "own times",
    "no answer": "no answer",
    "different": "differs",
}
"""Heading -> verdict."""
BOTH = 3
"""Outputs with a recorded response that the log gives too: a test of test_golden_outputs.py."""
COMPARED = """\
Of the changes among them {changes} are looked at further: the records that our controller then
writes are, all of them and no others, the very next of Kafka's log, at the one place of the log
where output and records fit (tests/cli/bind_offsets.py). Left out are ids, salts and replicas that
are drawn; {unordered} are compared in any order, since Kafka's is that of a hash map.

The `offset` of {chosen}, those without `records`, `frame` or
`table` in verdicts.json, is chosen: a place in Kafka's log where our output is Kafka's. That there
is one is compared, not that the tool ran there.

Of the outputs of `quorum` {frames} are answered by the response that was recorded for the command,
and our request is the recorded one. {tables} more had no response: leader, epoch, high watermark,
voters, observers, directory ids, log end offsets and addresses of the answer are those of Kafka's
log, at the times of a `--replication` output ({own} of them: its own). What was recorded for
{both} such outputs is made in the same way, whole. Own times: all is compared but the instants in
the columns LastFetchTimestamp and LastCaughtUpTimestamp. They say where in the log a row was, so
that another end there is seen, and two times of one row that differ although it was at the end;
both together some milliseconds later are not. The order of observers is given: that of the other
output of the moment. No answer: nothing recorded says what was answered, so the command is not run.
"""


def _counts() -> dict[str, int | str]:
    held = verdicts().values()
    return {
        "changes": sum(verdict.records is not None for verdict in held),
        "unordered": sum(verdict.is_any_order for verdict in held),
        "frames": sum(verdict.frame is not None for verdict in held),
        "tables": sum(verdict.table is not None for verdict in held),
        "own": sum(verdict.verdict == "own times" for verdict in held),
        "both": BOTH,
        "chosen": chosen(),
    }


def chosen() -> str:
    """The outputs whose place in Kafka's log nothing recorded says: docs/cli.md and COVERAGE.md."""
    counts = Counter(
        held.verdict
        for held in verdicts().values()
        if held.offset is not None and (held.records, held.frame, held.table) == (None, None, None)
    )
    shown = ", ".join(
        f"{count} {verdict}" for verdict, count in sorted(counts.items(), reverse=True)
    )
    return f"{counts.total()} of the {len(outputs())} outputs ({shown})"


def apart_column(found: Iterable[Any]) -> str:
    """Number of verdicts by the things that they leave out."""
    apart = Counter(", ".join(held.apart) for held in found if held.verdict == "apart")
    return "; ".join(f"{count} {names}" for names, count in sorted(apart.items())) or "-"


def reason_rows(held: Mapping[str, Any], shown: Callable[[str], str] = str) -> list[str]:
    """A row for each reason of verdicts, with the names of their outputs as they are shown."""
    reasons: dict[str, list[str]] = {}
    for name, verdict in sorted(held.items()):
        reasons.setdefault(verdict.why, []).append(f"`{shown(name)}`")
    return [f"| {why} | {', '.join(names)} |" for why, names in sorted(reasons.items())]


def table() -> str:
    """Both tables, in Markdown."""
    lines = [
        f"| command | Kafka's tool | outputs | {' | '.join(COLUMNS)} |",
        "|---|---|---|---|---|---|---|---|",
    ]
    total: Counter[str] = Counter()
    for tool, (command, script) in TOOLS.items():
        found = [verdicts()[n] for n, run in outputs().items() if run.command == tool]
        counts = Counter(verdict.verdict for verdict in found)
        shown = apart_column(found)
        total += counts
        lines.append(
            f"| `{command}` | {script} | {len(found)} | {counts['equal']} | {shown} | "
            f"{' | '.join(str(counts[name] or '-') for name in list(COLUMNS.values())[2:])} |"
        )
    others = Counter(run.command for run in outputs().values() if run.command not in TOOLS)
    names = ", ".join(f"{name} {count}" for name, count in sorted(others.items()))
    lines += [
        f"| - | not made again: {names} | {sum(others.values())} | - | - | - | - | - |",
        f"| all | | {len(outputs())} | {' | '.join(str(total[v]) for v in COLUMNS.values())} |",
        "",
        *COMPARED.format(**_counts()).splitlines(),
        "",
        "| apart from | that is |",
        "|---|---|",
        *(f"| {name} | {text} |" for name, text in APART.items()),
        "",
        "| different | outputs |",
        "|---|---|",
    ]
    differing = {n: v for n, v in verdicts().items() if v.verdict == "differs"}
    return "\n".join([*lines, *reason_rows(differing)]) + "\n"


if __name__ == "__main__":
    sys.stdout.write(table())
