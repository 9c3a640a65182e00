"""Entry of a node process; imports the node only after the interpreter is known to suit it."""

import sys
from collections.abc import Sequence
from pathlib import Path


def start(
    properties: Path | None,
    overrides: Sequence[str],
    format_cluster_id: str | None,
    *,
    environment: bool = False,
) -> int:
    """Run the node that a properties file describes, until it is told to stop.

    Args:
        properties: server.properties with Kafka's keys; None = the environment alone.
        overrides: `key=value`, stronger than the file.
        format_cluster_id: format the folders that are not formatted for this cluster first.
        environment: KAFKA_* variables are stronger than the file (node/environment.py).

    Returns:
        The exit code: 0 after a clean shutdown, 1 when it could not start or had to stop.
    """
    if not __debug__:
        sys.stderr.write("a node does not run under python -O: its assertions protect the data\n")
        return 1
    # kio imports hypothesis where it is installed, which costs 90 ms and 15 MB at start.
    sys.modules.setdefault("hypothesis", None)  # type: ignore[arg-type]
    from node.process import run_node  # noqa: PLC0415 - after the line above

    return run_node(properties, overrides, format_cluster_id, environment=environment)
