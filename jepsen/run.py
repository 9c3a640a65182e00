"""One run: start nodes, run clients and nemesis, heal, read everything, judge, undo.

Exit codes of a run are in `EXIT_CODES`; a run that could not be carried out raises `HarnessError`.
"""

import asyncio
import contextlib
import platform
import shutil
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from random import Random
from typing import Any, Final, Protocol

import msgspec

from jepsen.clients import LeaderWatch
from jepsen.cluster import ROOT, Cluster, ClusterError, free_base_port
from jepsen.groups import names as of_groups
from jepsen.history import Recorder
from jepsen.judgement import (
    CONVERGED,
    PATH_CHARACTERS,
    QUORUM_FOLDER,
    TEST_FILE,
    Left,
    judged,
)
from jepsen.metadata_clients import MetadataClients
from jepsen.names import APPEND_LOG, GROUP, TXN
from jepsen.nemesis import Nemesis, schedule
from jepsen.records.clients import NODE_SETTINGS, TOPICS, AppendLogClients
from jepsen.records.coordinators import Coordinators
from jepsen.records.leadership import Leadership
from jepsen.report import INVALID, RESULTS_FILE, UNKNOWN, VALID, Check, write_results
from jepsen.signals import Interruption
from jepsen.transactions import topics as of_transactions
from jepsen.workloads import workload_named

EXIT_CODES: Final = {VALID: 0, INVALID: 1, UNKNOWN: 2}
CONVERGE_S: Final = 30.0
PARTITIONED: Final[Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    APPEND_LOG: (NODE_SETTINGS, TOPICS),
    TXN: (
        (*NODE_SETTINGS, *of_transactions.NODE_SETTINGS),
        (*of_transactions.TOPICS, of_transactions.STATE_TOPIC),
    ),
    GROUP: ((*NODE_SETTINGS, *of_groups.NODE_SETTINGS), (*TOPICS, of_groups.OFFSETS_TOPIC)),
}
"""Settings of the nodes, and topics whose leaders are moved, of workloads with partitions."""

Say = Callable[[str], None]


class HarnessError(Exception):
    """The run could not be carried out: nothing is known of the nodes; the text is for people."""


class NotUndoneError(HarnessError):
    """Processes of nodes may be left: the text says which, and how to end them."""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """A run as the command line asks for it."""

    workload: str
    nemesis: tuple[str, ...]
    nodes: int
    time_limit_s: float
    seed: int
    rate: float
    """Operations per second of all clients together."""
    concurrency: int
    """Client threads."""
    reads: str = "quorum"
    """`local`: without a barrier; not linearizable, a control of the harness."""
    is_committed_only: bool = True
    """Transactions of txn read what is committed alone; else everything, as a control."""
    commits_early: bool = False
    """Members of group commit a record more than they have read: a control of the harness."""
    is_idempotent: bool = True
    """Producers of append-log are; without it a record may be there more than once."""
    is_unclean: bool = False
    """Topics of append-log may lose records: a control of the harness."""
    base_port: int | None = None
    folder: Path | None = None
    """Folder kept after the run; None: a temporary one, removed unless the verdict is invalid."""


class Clients(Protocol):
    """The clients of a workload in a run."""

    @property
    def threads(self) -> int:
        """Threads that work at a time."""
        ...

    async def set_up(self) -> None:
        """Create what must be there before the first operation; raises ClusterError."""
        ...

    async def thread(self, number: int, until_s: float) -> None:
        """Do operations until a time of the loop."""
        ...

    async def read_finally(self) -> str | None:
        """Read everything at the end; the reason where that is not possible."""
        ...

    async def close(self) -> None:
        """End what threads and processes still do."""
        ...


class Run:
    """Parts of one run, and what they share."""

    _clients: "Clients"

    def __init__(self, options: Options, folder: Path, say: Say) -> None:
        rng = Random(f"{options.seed}/ports/{time.monotonic_ns()}")  # noqa: S311  # not secret
        base_port = options.base_port or free_base_port(options.nodes, rng)
        self._options = options
        self._say = say
        settings, topics = PARTITIONED.get(options.workload, ((), ()))
        self.cluster: Final = Cluster(folder / QUORUM_FOLDER, options.nodes, base_port, settings)
        self.recorder: Final = Recorder(folder)
        self._watch = LeaderWatch(self.cluster.nodes)
        self._coordinators: Coordinators | None = None
        self._clients = self._of(options)
        leadership = Leadership(self.cluster, self._watch, topics) if topics else None
        self.nemesis: Final = Nemesis(
            self.cluster, self._watch, self.recorder, leadership, self._coordinators
        )
        self.committed: int | None = None
        """High watermark that all nodes had reached after the healing; None: not yet."""

    def _of(self, options: Options) -> Clients:
        """Clients of the workload.

        Raises:
            ClusterError: they need a package that is not there.
        """
        try:
            if options.workload == APPEND_LOG:
                return self._of_records(options)
            if options.workload == TXN:
                return self._of_transactions(options)
            if options.workload == GROUP:
                return self._of_groups(options)
        except ImportError as error:
            text = f"{options.workload} needs confluent-kafka, of the extra 'interop': {error}"
            raise ClusterError(text) from error
        return self._of_metadata(options)

    def _of_records(self, options: Options) -> Clients:
        return AppendLogClients(
            self.cluster,
            self._watch,
            self.recorder,
            seed=options.seed,
            rate=options.rate,
            producers=options.concurrency,
            is_idempotent=options.is_idempotent,
            is_unclean=options.is_unclean,
        )

    def _of_transactions(self, options: Options) -> Clients:
        from jepsen.transactions.clients import TxnClients  # noqa: PLC0415  # an extra

        clients = TxnClients(
            self.cluster,
            self._watch,
            self.recorder,
            seed=options.seed,
            rate=options.rate,
            applications=options.concurrency,
            is_committed_only=options.is_committed_only,
        )
        self._coordinators = clients.coordinators
        return clients

    def _of_groups(self, options: Options) -> Clients:
        from jepsen.groups.clients import GroupClients  # noqa: PLC0415  # an extra

        clients = GroupClients(
            self.cluster,
            self._watch,
            self.recorder,
            seed=options.seed,
            rate=options.rate,
            producers=options.concurrency,
            commits_early=options.commits_early,
        )
        self._coordinators = clients.coordinators
        return clients

    def _of_metadata(self, options: Options) -> Clients:
        workload = workload_named(
            options.workload,
            reads=options.reads,
            operations=int(options.rate * options.time_limit_s),
        )
        return MetadataClients(
            self.cluster,
            self._watch,
            self.recorder,
            workload,
            seed=options.seed,
            rate=options.rate,
            threads=options.concurrency,
        )

    @property
    def epochs(self) -> dict[int, int]:
        """Leaders by epoch, as far as they were seen."""
        return self._watch.epochs

    async def carry_out(self) -> Check:
        """Do everything between the start of the nodes and the last read; the nodes still run.

        Returns:
            The check that the nodes came to agree at the end.
        """
        self._say("starting nodes")
        await self.cluster.start()
        async with _in_background(self._watch.run()):
            await self._clients.set_up()
            self._say("clients and nemesis at work")
            await self._work()
            self._say("healing")
            await self.nemesis.heal()
            self.committed = await self.cluster.wait_converged(CONVERGE_S)
            if self.committed is None:
                return Check(CONVERGED, UNKNOWN, f"no leader or a lag after {CONVERGE_S:.0f} s")
            self._say("final reads")
            reason = await self._clients.read_finally()
            return Check(CONVERGED, VALID if reason is None else UNKNOWN, reason)

    async def end_clients(self) -> None:
        """End everything of theirs, also after a failure."""
        await self._clients.close()

    async def _work(self) -> None:
        faults = schedule(self._options.seed, self._options.nemesis, self._options.time_limit_s)
        until_s = _now_s() + self._options.time_limit_s
        async with asyncio.TaskGroup() as tasks:
            damage = tasks.create_task(self.nemesis.run(faults))
            workers = [
                tasks.create_task(self._clients.thread(number, until_s))
                for number in range(self._clients.threads)
            ]
            await asyncio.wait(workers)
            damage.cancel()


def run(options: Options, say: Say) -> dict[str, Any]:
    """Carry out a run and judge it.

    Args:
        options: What to do.
        say: Called with lines about the progress.

    Returns:
        The object of results.json; `verdict` is a key of EXIT_CODES.

    Raises:
        HarnessError: it could not be carried out; everything is undone.
        NotUndoneError: nodes may still run; the folder is kept.
        KeyboardInterrupt: SIGINT, SIGTERM, SIGHUP or SIGQUIT came; everything is undone.
    """
    started_s = time.monotonic()
    folder = _folder(options)
    keep = options.folder is not None
    interruption = Interruption()
    with interruption.handled():
        try:
            run_ = _prepared(options, folder, say)
            converged = asyncio.run(_carried_out(run_, folder, say, interruption))
            say("checking")
            results = _judged(options, run_, converged, folder)
            results["seconds"] = round(time.monotonic() - started_s, 1)
            keep = keep or results["verdict"] == INVALID
            results["dir"] = str(folder) if keep else None
            _store(folder, results)
        except NotUndoneError:
            keep = True
            raise
        finally:
            if not keep:
                shutil.rmtree(folder, ignore_errors=True)
    return results


def _prepared(options: Options, folder: Path, say: Say) -> Run:
    """Prepare everything but processes."""
    try:
        _write_test(options, folder)
        return Run(options, folder, say)
    except ClusterError as error:
        raise HarnessError(str(error)) from error
    except OSError as error:
        raise HarnessError(f"{_shown(folder)}: {error.strerror}") from error


def _folder(options: Options) -> Path:
    if options.folder is None:
        return Path(tempfile.mkdtemp(prefix="kraftline-jepsen-"))
    folder = options.folder.absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise HarnessError(f"{folder} is not empty: every run has a folder of its own")
    except OSError as error:
        raise HarnessError(f"{_shown(folder)}: {error.strerror}") from error
    return folder


def _shown(path: Path) -> str:
    return str(path)[:PATH_CHARACTERS]


async def _carried_out(run_: Run, folder: Path, say: Say, interruption: Interruption) -> Check:
    """Carry out the part with processes: on return none is left, whatever happened.

    Raises:
        HarnessError: as `run`; so NotUndoneError and KeyboardInterrupt.
    """
    work = asyncio.create_task(run_.carry_out())
    with interruption.cancels(work):
        try:
            converged = await work
        except asyncio.CancelledError:
            assert interruption.came, "nobody else cancels it"
            raise KeyboardInterrupt from None
        except ClusterError as error:
            raise HarnessError(str(error)) from error
        finally:
            _mention(say, "stopping nodes")
            await _undo(run_, folder, say)
        if interruption.came:  # too late to cancel anything
            raise KeyboardInterrupt
    return converged


async def _undo(run_: Run, folder: Path, say: Say) -> None:
    """End the nodes, then keep what they wrote; no failed step stops the next.

    Raises:
        NotUndoneError: a node may still run.
        HarnessError: the end of the history could not be written.
    """
    unwritten: OSError | None = None
    try:
        await run_.end_clients()
        await run_.cluster.stop()
    except Exception as error:
        place = run_.cluster.folder
        raise NotUndoneError(
            f"not everything is undone: {error}; scripts/quorum down --dir {place} ends nodes"
        ) from error
    finally:
        try:
            run_.recorder.close()
        except OSError as error:
            unwritten = error
        for node_id, path in run_.cluster.node_folders().items():
            _keep_output(path / "node.log", folder / f"node-{node_id}.log", say)
    if unwritten is not None:
        raise HarnessError(f"the history could not be closed: {unwritten.strerror}") from unwritten


def _keep_output(source: Path, target: Path, say: Say) -> None:
    """Copy the output of a node; it stays in the node's folder where that fails."""
    try:
        if source.exists():
            shutil.copyfile(source, target)
    except OSError as error:
        _mention(say, f"{target.name} could not be written: {error.strerror}")


def _mention(say: Say, line: str) -> None:
    """Say a line; the listener may be gone, which must not stop the undoing."""
    with contextlib.suppress(OSError, ValueError):  # a broken pipe, a full disk; a closed file
        say(line)


def _store(folder: Path, results: dict[str, Any]) -> None:
    try:
        write_results(folder, results)
    except OSError as error:
        raise HarnessError(
            f"{_shown(folder / RESULTS_FILE)}: {error.strerror}; the verdict was "
            f"{results['verdict']}"
        ) from error


def _judged(options: Options, run_: Run, converged: Check, folder: Path) -> dict[str, Any]:
    return judged(
        Left(
            workload=options.workload,
            is_idempotent=options.is_idempotent,
            nemesis=options.nemesis,
            seed=options.seed,
            history=run_.recorder.history(),
            folder=folder,
            nodes=run_.cluster.node_folders(),
            node_count=options.nodes,
            committed=run_.committed,
            converged=converged,
            bites=run_.nemesis.bites,
            leaders={str(epoch): node for epoch, node in sorted(run_.epochs.items())},
        )
    )


def _write_test(options: Options, folder: Path) -> None:
    """Write `test.json`: everything that tells this run from others."""
    described: dict[str, Any] = msgspec.to_builtins(msgspec.structs.replace(options, folder=None))
    described["schedule"] = [
        msgspec.to_builtins(fault)
        for fault in schedule(options.seed, options.nemesis, options.time_limit_s)
    ]
    described["python"] = platform.python_version()
    described["commit"] = _commit()
    (folder / TEST_FILE).write_bytes(msgspec.json.format(msgspec.json.encode(described)) + b"\n")


def _commit() -> str | None:
    """Commit of the tree, if it is one and git is there."""
    command = ["git", "-C", str(ROOT), "rev-parse", "HEAD"]
    with contextlib.suppress(OSError):
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
        return done.stdout.strip() or None
    return None


def _now_s() -> float:
    return asyncio.get_running_loop().time()


@contextlib.asynccontextmanager
async def _in_background(work: Any) -> AsyncIterator[None]:
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
