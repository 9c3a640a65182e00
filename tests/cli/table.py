"""The table of docs/cli.md: which recorded outputs of Kafka's tools are ours, and why others not.

`python -m tests.cli.table` prints it.
"""

import sys
from collections import Counter

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
    "release": "release: ours by default is 3.9-IV0, with fewer features than 4.3-IV0",
    "folders": "log directories of replicas: 3.9.1 does not ask for them; one was offline there",
    "chance": "replicas of a proposal, drawn by chance",
    "tabs": "tabs of 3.9.1 where 4.3.1 and we have blanks",
    "3.9": "words of 3.9.1 that 4.3.1 and we have otherwise",
}


def table() -> str:
    """Both tables, in Markdown."""
    lines = [
        "| command | Kafka's tool | outputs | equal | equal apart from | different |",
        "|---|---|---|---|---|---|",
    ]
    total: Counter[str] = Counter()
    for tool, (command, script) in TOOLS.items():
        found = [verdicts()[n] for n, run in outputs().items() if run.command == tool]
        counts = Counter(verdict.verdict for verdict in found)
        apart = Counter(", ".join(v.apart) for v in found if v.verdict == "apart")
        shown = "; ".join(f"{count} {names}" for names, count in sorted(apart.items())) or "-"
        total += counts
        lines.append(
            f"| `{command}` | {script} | {len(found)} | {counts['equal']} | {shown} | "
            f"{counts['differs'] or '-'} |"
        )
    others = Counter(run.command for run in outputs().values() if run.command not in TOOLS)
    changes = sum(verdict.records is not None for verdict in verdicts().values())
    names = ", ".join(f"{name} {count}" for name, count in sorted(others.items()))
    lines += [
        f"| - | no command here: {names} | {sum(others.values())} | - | - | - |",
        f"| all | | {len(outputs())} | {total['equal']} | {total['apart']} | {total['differs']} |",
        "",
        (
            f"Of the changes among them {changes} are looked at further: the records that our "
            "controller then writes"
        ),
        "are those that Kafka's log holds next.",
        "",
        "| apart from | that is |",
        "|---|---|",
        *(f"| {name} | {text} |" for name, text in APART.items()),
        "",
        "| different | outputs |",
        "|---|---|",
    ]
    reasons: dict[str, list[str]] = {}
    for name, verdict in sorted(verdicts().items()):
        if verdict.verdict == "differs":
            reasons.setdefault(verdict.why, []).append(f"`{name}`")
    lines += [f"| {why} | {', '.join(names)} |" for why, names in sorted(reasons.items())]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(table())
