"""The table of docs/cli.md about `transactions`.

`python -m tests.cli.transactions.table` prints it.
"""

import sys
from collections import Counter

from tests.cli.table import apart_column, reason_rows
from tests.cli.transactions.recorded import verdicts

APART = {
    "usage": "usage text before or after the error",
    "log": "what Kafka's client logs about a broker that is down",
    "order": "order of rows and of the partitions in one: Kafka's is a hash map's, ours by name",
}
HEAD = "| command | Kafka's tool | outputs | equal | equal apart from | no answer | different |"


def table() -> str:
    """All tables, in Markdown."""
    held = verdicts()
    counts = Counter(verdict.verdict for verdict in held.values())
    row = (
        f"| `transactions` | kafka-transactions | {len(held)} | {counts['equal']} | "
        f"{apart_column(held.values())} | {counts['no answer']} | {counts['differs']} |"
    )
    lines = [
        HEAD,
        "|---|---|---|---|---|---|---|",
        row,
        "",
        "| apart from | that is |",
        "|---|---|",
        *(f"| {name} | {text} |" for name, text in APART.items()),
        "",
        "| different, or no answer | outputs |",
        "|---|---|",
        *reason_rows({name: verdict for name, verdict in held.items() if verdict.why}),
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(table())
