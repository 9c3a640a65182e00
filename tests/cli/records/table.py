"""The table of docs/cli.md about the records tools.

`python -m tests.cli.records.table` prints it.
"""

import sys
from collections import Counter

from tests.cli.records.golden import outputs, verdicts
from tests.cli.table import apart_column, reason_rows

TOOLS = {
    "GetOffsetShell": ("get-offsets", "kafka-get-offsets"),
    "ConsoleProducer": ("console-producer", "kafka-console-producer"),
    "ConsoleConsumer": ("console-consumer", "kafka-console-consumer"),
    "DeleteRecordsCommand": ("delete-records", "kafka-delete-records"),
    "LogDirsCommand": ("log-dirs", "kafka-log-dirs"),
    "ProducerPerformance": ("producer-perf-test", "kafka-producer-perf-test"),
    "VerifiableProducer": ("verifiable-producer", "kafka-verifiable-producer"),
}
APART = {
    "log": "what the clients log; date, level and class around the text of other errors in the log",
    "java": "names of exceptions and what repeats the line before",
    "usage": "usage text before or after the error",
    "group": "advice about the protocol of groups",
    "times": "times, rates, latencies, and the folder of a file",
    "order": "order of partitions: in JSON a hash map's, of records that of the answers",
}
SUMMED = ("equal", "apart", "no answer", "differs")
HEAD = "| command | Kafka's tool | outputs | equal | equal apart from | no answer | different |"


def table() -> str:
    """Both tables, in Markdown."""
    lines = [HEAD, "|---|---|---|---|---|---|---|"]
    total: Counter[str] = Counter()
    for tool, (command, script) in TOOLS.items():
        found = [verdicts()[n] for n, run in outputs().items() if run.command == tool]
        counts = Counter(verdict.verdict for verdict in found)
        shown = apart_column(found)
        total += counts
        if counts["no command"]:
            lines.append(f"| - | {script} | {len(found)} | - | - | - | - |")
            continue
        lines.append(
            f"| `{command}` | {script} | {len(found)} | {counts['equal']} | {shown} | "
            f"{counts['no answer'] or '-'} | {counts['differs'] or '-'} |"
        )
    lines += [
        f"| all | | {len(outputs())} | {' | '.join(str(total[v]) for v in SUMMED)} |",
        "",
        "| apart from | that is |",
        "|---|---|",
        *(f"| {name} | {text} |" for name, text in APART.items()),
        "",
        "| different, or no answer | outputs |",
        "|---|---|",
    ]
    unequal = {name: held for name, held in verdicts().items() if held.why}
    rows = reason_rows(unequal, lambda name: name.partition("/")[2])
    return "\n".join([*lines, *rows]) + "\n"


if __name__ == "__main__":
    sys.stdout.write(table())
