"""Waiting until nodes serve: as long as they make progress, which is shown, and no longer.

A node that loads a large metadata log works for a while before it answers anybody; what shows its
progress from outside is the processor time that it takes, up to a limit: a node that spins takes it
too. Once it has answered, it has loaded, and only serving counts.
"""

import subprocess
import sys
import time
from collections.abc import Mapping

from scripts.launcher import processes
from scripts.launcher.kafka_client import answers, ask_cluster
from scripts.launcher.layout import Cluster, NodePlan
from scripts.launcher.refusal import RefusalError
from scripts.launcher.report import find_quorum

PATIENCE_SECONDS = 60.0
"""Without progress."""
WORK_SECONDS = 3.0
"""Processor time that is progress: a node that only waits for others takes less in a minute."""
LOAD_SECONDS_MAX = 600.0
"""Until a node answers for the first time; one with 1,000,000 partitions loads for 15 to 40 s."""
LINE_SECONDS = 5.0
LOOK_SECONDS = 0.5
"""From one look at the progress to the next: each asks the nodes once more, and they have work."""


class Watch:
    """Progress of the nodes that do not serve yet; times in seconds.

    Args:
        now: when the wait begins.
    """

    def __init__(self, now: float) -> None:
        self._begin = self._progress_at = self._line_at = self._looked_at = now
        self._waiting_count = 0
        self._has_answered: set[int] = set()
        self._counted: dict[int, float] = {}
        """By node: its processor time at its last progress."""

    def is_look_due(self, now: float) -> bool:
        """True if the last look, or the begin of the wait, is long enough ago."""
        return now - self._looked_at >= LOOK_SECONDS

    def look(self, now: float, waiting: list[int], silent: Mapping[int, float]) -> None:
        """Note progress: a further node serves, or one that loads has worked.

        Args:
            now: when.
            waiting: nodes that do not serve.
            silent: those of them that do not answer, with their processor time. One that has
                answered before has loaded: whatever it works at, it is not that.
        """
        self._looked_at = now
        if len(waiting) < self._waiting_count:
            self._progress_at = now
        self._waiting_count = len(waiting)
        self._has_answered |= set(waiting) - silent.keys()
        for node_id in silent.keys() - self._has_answered:
            worked = silent[node_id]
            if worked - self._counted.get(node_id, 0.0) >= WORK_SECONDS:
                self._counted[node_id] = worked
                self._progress_at = now

    def refusal(self, now: float, waiting: list[int], silent: Mapping[int, float]) -> str | None:
        """Reason to give up the wait, None while it goes on."""
        begin_s = now - self._begin
        loading = sorted(silent.keys() - self._has_answered)
        if loading and begin_s > LOAD_SECONDS_MAX:
            names = ", ".join(map(str, loading))
            return (
                f"not ready, and no answer for {begin_s:.0f} s from {names}; see quorum logs NODE"
            )
        if now - self._progress_at > PATIENCE_SECONDS:
            names = ", ".join(map(str, waiting))
            return (
                f"not ready, and no progress for {PATIENCE_SECONDS:.0f} s, waiting for {names}; "
                "see quorum logs NODE"
            )
        return None

    def line(self, now: float, waiting: list[int], silent: Mapping[int, float]) -> str | None:
        """Line about the nodes that are waited for, if one is due."""
        if now - self._line_at < LINE_SECONDS:
            return None
        self._line_at = now
        parts = [
            f"node {node_id} has answered and does not serve yet"
            if node_id in self._has_answered
            else f"node {node_id} loads ({silent[node_id]:.0f} s of processor time)"
            for node_id in waiting
        ]
        return f"after {now - self._begin:.0f} s: {', '.join(parts)}"


def wait_ready(
    cluster: Cluster, nodes: list[NodePlan], started: "dict[int, subprocess.Popen[bytes]]"
) -> None:
    """Wait until the nodes serve; refuses when one ends, or when nothing goes on any more."""
    watch = Watch(time.monotonic())
    waiting = nodes
    while waiting := unready(cluster, waiting):
        for node_id, process in started.items():
            if process.poll() is not None:
                last = processes.last_log_line(cluster, node_id)
                raise RefusalError(
                    f"node {node_id} ended with exit code {process.returncode}: {last}"
                )
        now = time.monotonic()
        if watch.is_look_due(now):
            _look(watch, now, waiting, started)
        time.sleep(processes.POLL_SECONDS)


def _look(
    watch: Watch, now: float, waiting: list[NodePlan], started: "dict[int, subprocess.Popen[bytes]]"
) -> None:
    """Note the progress of the nodes that are waited for; refuses when there is none any more."""
    silent = {
        node.id: processes.cpu_seconds(started[node.id].pid)
        for node in waiting
        if not answers(node.kafka or node.controller)
    }
    waiting_ids = [node.id for node in waiting]
    watch.look(now, waiting_ids, silent)
    refusal = watch.refusal(now, waiting_ids, silent)
    if refusal is not None:
        raise RefusalError(refusal)
    line = watch.line(now, waiting_ids, silent)
    if line is not None:
        sys.stderr.write(f"quorum: {line}\n")


def unready(cluster: Cluster, nodes: list[NodePlan]) -> list[NodePlan]:
    """Nodes that do not serve yet; when none is left, a controller must name a leader too.

    A broker serves when it answers and sees each of the brokers asked for unfenced: then its own
    metadata is as new as that. A controller serves when it takes part: the leader lists its end.
    """
    quorum = find_quorum([n for n in cluster.nodes if processes.is_awake(cluster, n.id)])
    if quorum is None:
        return nodes
    broker_ids = {node.id for node in nodes if "broker" in node.roles}
    waiting = []
    for node in nodes:
        if "broker" in node.roles:
            view = ask_cluster(node.kafka)
            is_ready = view is not None and all(
                not view.fenced_by_broker.get(broker_id, True) for broker_id in broker_ids
            )
        else:
            end = quorum.voter_ends.get(node.id, quorum.observer_ends.get(node.id, -1))
            is_ready = end >= 0
        if not is_ready:
            waiting.append(node)
    return waiting
