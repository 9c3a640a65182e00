"""`kraftline recover plan|apply|relabel`: a quorum that lost its majority goes on with one voter.

Folders of stopped nodes, ours or Kafka's. Exit code 0: no committed record is missing, or done; 1:
committed records may be missing; 2: no plan can be made, a folder cannot be used. docs/recovery.md
"""

import sys
from argparse import Namespace
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from cli.arguments import Parser, UsageError

if TYPE_CHECKING:
    from kernel.lost_majority.audit import Audit
    from kernel.lost_majority.reading import StoppedFolder
    from raft.membership.lost_majority import RecoveryPlan
    from raft.membership.voters import Voter

DONE, UNPROVEN, REFUSED = 0, 1, 2
NO_DIRECTORY_IDS: Final = (
    "kraft.version is 0: no directory id tells the old folder of a lost voter from a new one, so "
    "only another cluster id refuses it. Name one (--cluster-id, `kraftline storage random-uuid`), "
    "or --keep-cluster-id if no old folder can come back"
)


class _Parser(Parser):
    """Parser whose refusal gives no verdict: 1 means that records may be missing."""

    refusal_code = REFUSED


def run(arguments: Sequence[str]) -> int:
    """Perform the command and return the exit code."""
    options = _parse(arguments)
    from kernel.kraft_version import UnsupportedFeatureError  # noqa: PLC0415  # slow
    from kernel.lost_majority.reading import UnusableFolderError  # noqa: PLC0415
    from node.errors import ConfigError, StartError  # noqa: PLC0415
    from storage import errors  # noqa: PLC0415

    try:
        return _relabel(options) if options.command == "relabel" else _recover(options)
    except (
        UsageError,
        ConfigError,
        StartError,
        UnusableFolderError,
        UnsupportedFeatureError,
        errors.CorruptFileError,
        errors.CorruptLogError,
        errors.LockedDirectoryError,
        errors.OutOfSpaceError,
        errors.FsyncError,
    ) as error:
        sys.stderr.write(f"{error}\n")
    except OSError as error:
        where = "" if error.filename is None else f"{error.filename}: "
        sys.stderr.write(f"{where}{error.strerror or error}\n")
    return REFUSED


def _parse(arguments: Sequence[str]) -> Namespace:
    parser = _Parser("kraftline recover", "Recovery of a quorum that lost its majority.")
    commands = parser.add_subparsers(dest="command", required=True, parser_class=_Parser)
    plan = commands.add_parser("plan")
    apply = commands.add_parser("apply")
    for each in (plan, apply):
        each.add_argument(
            "-c", "--config", required=True, help="server.properties of the node that goes on"
        )
        each.add_argument(
            "folders", nargs="*", metavar="DIR", help="log directories of other stopped nodes"
        )
        each.add_argument(
            "--copy",
            action="append",
            default=[],
            metavar="DIR",
            help="a backup or copy: its records are used, it proves nothing; repeatable",
        )
        each.add_argument("--json", action="store_true", help="one JSON object")
    apply.add_argument("--accept-data-loss", action="store_true", help="also if not proven")
    cluster = apply.add_mutually_exclusive_group()
    cluster.add_argument("--cluster-id", metavar="ID", help="a new one, which old folders lack")
    cluster.add_argument("--keep-cluster-id", action="store_true", help="at kraft.version 0")
    apply.add_argument("--dry-run", action="store_true", help="check and print, write nothing")
    relabel = commands.add_parser("relabel")
    relabel.add_argument("folders", nargs="+", metavar="DIR", help="log directories of brokers")
    relabel.add_argument("--from", dest="before", required=True, metavar="ID", help="the old one")
    relabel.add_argument("--cluster-id", required=True, metavar="ID", help="the new one")
    relabel.add_argument("--dry-run", action="store_true", help="check and print, write nothing")
    relabel.add_argument("--json", action="store_true", help="one JSON object")
    return parser.parse_args(arguments)


def _recover(options: Namespace) -> int:
    from cli.admin.controller_properties import controller_of  # noqa: PLC0415
    from cli.offline import recover_report as report  # noqa: PLC0415
    from kernel.lost_majority.audit import Audit, unfinished_audit  # noqa: PLC0415
    from kernel.lost_majority.reading import metadata_directory  # noqa: PLC0415
    from storage.log_dir.quorum_state_file import QUORUM_STATE_NAME  # noqa: PLC0415
    from storage.os_vfs import OsVfs  # noqa: PLC0415

    vfs = OsVfs()
    controller = controller_of(Path(options.config))
    target = controller.folder
    names = list(dict.fromkeys([target, *options.folders, *options.copy]))
    with ExitStack() as held:
        _lock(vfs, names, held)
        begun = unfinished_audit(vfs, target)
        if begun is not None and options.command == "apply" and not options.dry_run:
            _lock(vfs, {begun.plan.source} - set(names), held)
            return _carried_out(vfs, begun, options, is_resumed=True)
        folders, plan = _planned(vfs, options, names, controller)
        lists = _record_lists(plan)
        before = folders[0].properties.cluster_id
        answer = report.plan_object(plan, folders, lists)
        text = report.plan_text(plan, folders, lists)
        if begun is not None:
            text += (
                f"A recovery to epoch {begun.plan.epoch} was interrupted: `apply` finishes it.\n"
            )
        if options.command == "plan" or options.dry_run:
            _print(options, answer, text)
            return DONE if plan.is_proven else UNPROVEN
        if not plan.is_proven and not options.accept_data_loss:
            _print(options, answer, text)
            sys.stderr.write("committed records may be missing: see above, --accept-data-loss\n")
            return UNPROVEN
        cluster_id = _cluster_id(options, plan, before)
        state = f"{metadata_directory(target)}/{QUORUM_STATE_NAME}"
        audit = Audit(
            state="begun",
            wall_ms=int(datetime.now(UTC).timestamp() * 1000),
            plan=plan,
            accepted_data_loss=not plan.is_proven,
            cluster_id=cluster_id,
            cluster_id_before=before,
            folders=msgspec.Raw(msgspec.json.encode(answer["folders"])),
            quorum_state_before=vfs.read(state).decode() if vfs.exists(state) else None,
        )
        if not options.json:
            sys.stdout.write(text)
        return _carried_out(vfs, audit, options, is_resumed=False)


def _lock(vfs: Any, names: Iterable[str], held: ExitStack) -> None:
    """Hold the lock of each folder to the end.

    Raises:
        LockedDirectoryError: a node runs on it.
        UsageError: there is no such directory.
    """
    from storage.log_dir.directory_lock import lock_directory  # noqa: PLC0415

    for name in names:
        if not vfs.is_directory(name):
            raise UsageError(f"{name}: no such directory")
        held.callback(lock_directory(vfs, name).release)


def _planned(
    vfs: Any, options: Namespace, names: Sequence[str], controller: Any
) -> "tuple[list[StoppedFolder], RecoveryPlan]":
    """Read the folders, the target first, and plan.

    Raises:
        UsageError: they are of several clusters, or no plan can be made of them.
    """
    from cli.admin.controller_properties import read_properties_file  # noqa: PLC0415
    from kernel.lost_majority.reading import read_folder  # noqa: PLC0415
    from node.configs.listeners import VOTERS_KEY, parse_voters  # noqa: PLC0415
    from raft.membership.lost_majority import RecoveryRefusal, plan_recovery  # noqa: PLC0415
    from raft.membership.voters import static_voters  # noqa: PLC0415
    from wire.types import Endpoint  # noqa: PLC0415

    properties = read_properties_file(Path(options.config))
    listener = controller.endpoints[0].listener
    configured = parse_voters(properties.get(VOTERS_KEY, ""))
    static = static_voters(
        tuple((each.id, Endpoint(listener, each.host, each.port)) for each in configured)
    )
    folders = [read_folder(vfs, name, static, is_copy=name in options.copy) for name in names]
    for folder in folders[1:]:
        ours, theirs = folders[0].properties.cluster_id, folder.properties.cluster_id
        if ours != theirs:
            raise UsageError(
                f"{folder.replica.name} is of cluster {theirs}, {names[0]} of cluster {ours}"
            )
    planned = plan_recovery([each.replica for each in folders], names[0], _voter(controller))
    if isinstance(planned, RecoveryRefusal):
        raise UsageError(planned.reason)
    if planned.kraft_version == 0:
        _check_static(folders, tuple(static.ids), options.config)
    return folders, planned


def _voter(controller: Any) -> "Voter":
    from cli.initial_controllers import KRAFT_VERSION_RANGE  # noqa: PLC0415
    from raft.membership.voters import Voter  # noqa: PLC0415
    from wire.types import DirectoryId, Endpoint, NodeId, ReplicaKey  # noqa: PLC0415

    key = ReplicaKey(NodeId(controller.node_id), DirectoryId(controller.directory_id))
    at = tuple(Endpoint(each.listener, each.host, each.port) for each in controller.endpoints)
    return Voter(key, at, *KRAFT_VERSION_RANGE)


def _check_static(
    folders: "Sequence[StoppedFolder]", configured: tuple[int, ...], config: str
) -> None:
    """Check that the configuration has the voters that the newest quorum-state was written with."""
    newest = max(folders, key=lambda folder: (folder.replica.is_evidence, folder.replica.epoch))
    if newest.static_voter_ids and newest.static_voter_ids != configured:
        raise UsageError(
            f"{config}: controller.quorum.voters names {list(configured)}, quorum-state of "
            f"{newest.replica.name} {list(newest.static_voter_ids)}: give it as it was"
        )


def _record_lists(plan: "RecoveryPlan") -> dict[str, Any]:
    from cli.offline.recover_records import records_between  # noqa: PLC0415

    lists = {
        each.name: records_between(each.name, each.begin_offset, each.end_offset)
        for each in plan.left_behind
    }
    return lists | {
        plan.source: records_between(plan.source, plan.committed_end_offset, plan.end_offset)
    }


def _cluster_id(options: Namespace, plan: "RecoveryPlan", before: str) -> str:
    """Return the cluster id from now on.

    Raises:
        UsageError: the new one is the old one; or there must be one, and is none.
        StartError: it cannot be stored.
    """
    from node.identity import check_cluster_id  # noqa: PLC0415

    if options.cluster_id is None:
        if plan.kraft_version == 0 and not options.keep_cluster_id:
            raise UsageError(NO_DIRECTORY_IDS)
        return before
    check_cluster_id(options.cluster_id)
    if options.cluster_id == before:
        raise UsageError(f"--cluster-id {before} is the cluster id that old folders have")
    return str(options.cluster_id)


def _carried_out(vfs: Any, audit: "Audit", options: Namespace, *, is_resumed: bool) -> int:
    from cli.offline.recover_report import next_steps  # noqa: PLC0415
    from kernel.lost_majority.writing import carry_out  # noqa: PLC0415

    path = carry_out(vfs, audit, _date())
    plan = audit.plan
    steps = next_steps(plan, audit.cluster_id, audit.cluster_id_before)
    answer = {
        "audit": path,
        "is_resumed": is_resumed,
        "epoch": plan.epoch,
        "cluster_id": audit.cluster_id,
        "accepted_data_loss": audit.accepted_data_loss,
        "next": steps.splitlines(),
    }
    words = "Finished the interrupted recovery" if is_resumed else "Recovered"
    _print(options, answer, f"{words} {plan.target}; audit: {path}\n{steps}")
    return DONE


def _relabel(options: Namespace) -> int:
    from kernel.lost_majority.writing import relabel  # noqa: PLC0415
    from node.identity import check_cluster_id  # noqa: PLC0415
    from storage.log_dir.meta_properties import read_meta_properties  # noqa: PLC0415
    from storage.os_vfs import OsVfs  # noqa: PLC0415

    vfs = OsVfs()
    check_cluster_id(options.cluster_id)
    names = list(dict.fromkeys(options.folders))
    with ExitStack() as held:
        _lock(vfs, names, held)
        for name in names:  # all are checked before the first is written
            found = read_meta_properties(vfs, name)
            if found is not None and found.cluster_id not in (options.before, options.cluster_id):
                raise UsageError(
                    f"{name} is of cluster {found.cluster_id}, not of {options.before}"
                )
            if found is None:
                raise UsageError(f"{name}: no meta.properties: not the log directory of a node")
        changed = (
            []
            if options.dry_run
            else [n for n in names if relabel(vfs, n, options.cluster_id, _date())]
        )
    _print(
        options,
        {"cluster_id": options.cluster_id, "relabelled": changed},
        "".join(f"{name}: cluster.id is {options.cluster_id}\n" for name in changed),
    )
    return DONE


def _date() -> str:
    """The comment line of meta.properties, as Java writes it."""
    return f"{datetime.now(UTC):%a %b %d %H:%M:%S UTC %Y}"


def _print(options: Namespace, answer: Any, text: str) -> None:
    sys.stdout.write(msgspec.json.encode(answer).decode() + "\n" if options.json else text)
