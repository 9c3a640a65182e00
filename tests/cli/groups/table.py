"""The table of docs/cli.md about the commands for groups.

`python -m tests.cli.groups.table` prints it.
"""

import sys
from collections import Counter

from tests.cli.groups.golden import outputs, verdicts
from tests.cli.table import apart_column, reason_rows

TOOLS = {
    "ConsumerGroupCommand": ("groups", "kafka-consumer-groups"),
    "GroupsCommand": ("all-groups", "kafka-groups"),
    "VerifiableConsumer": ("verifiable-consumer", "kafka-verifiable-consumer"),
    "ConsumerPerformance": ("consumer-perf-test", "kafka-consumer-perf-test"),
}
APART = {
    "usage": "usage text after the first line",
    "log": "date, level and class around a warning; what the admin client logs",
    "java": "exceptions on standard error, which repeat a line of standard output",
    "order": "order: Kafka's is that of a hash map, ours by name",
    "times": "times of events",
    "rates": "times of a row, and rates by them",
}
SUMMED = ("equal", "apart", "differs")


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
        total += counts
        lines.append(
            f"| `{command}` | {script} | {len(found)} | {counts['equal']} | "
            f"{apart_column(found)} | {counts['differs'] or '-'} |"
        )
    lines += [
        f"| all | | {len(outputs())} | {' | '.join(str(total[v]) for v in SUMMED)} |",
        "",
        "| apart from | that is |",
        "|---|---|",
        *(f"| {name} | {text} |" for name, text in APART.items()),
        "",
        "| different | outputs |",
        "|---|---|",
    ]
    unequal = {name: held for name, held in verdicts().items() if held.why}
    rows = reason_rows(unequal, lambda name: name.partition("/")[2])
    return "\n".join([*lines, *rows]) + "\n"


if __name__ == "__main__":
    sys.stdout.write(table())
