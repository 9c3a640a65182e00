"""Entry point of a node process; it checks the interpreter before it imports the node."""

import gc
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from node.identity import InitialVoters


def start(
    properties: Path | None,
    overrides: Sequence[str],
    format_cluster_id: str | None,
    *,
    environment: bool = False,
    initial_voters: "InitialVoters | None" = None,
) -> int:
    """Run the node of a properties file until a signal or a failure stops it.

    Args:
        properties: server.properties with Kafka's keys; None = only the environment.
        overrides: `key=value`, which override the file.
        format_cluster_id: cluster id to format unformatted log directories with, before start.
        environment: True if KAFKA_* variables override the file (node/configs/environment.py).
        initial_voters: voters that a dynamic quorum is formatted with, by the configuration.

    Returns:
        The exit code: 0 after a clean shutdown, 1 if it could not start or had to stop.
    """
    if not __debug__:
        sys.stderr.write("a node does not run under python -O: its assertions protect the data\n")
        return 1
    # kio imports hypothesis where it is installed, which costs 90 ms and 15 MB at start.
    sys.modules.setdefault("hypothesis", None)  # type: ignore[arg-type]
    gc.disable()  # what is loaded stays: searching it for garbage takes a tenth of a start
    try:
        from node.process import run_node  # noqa: PLC0415 - after the lines above

        return run_node(
            properties,
            overrides,
            format_cluster_id,
            environment=environment,
            initial_voters=initial_voters,
        )
    finally:
        gc.enable()
