"""`kraftline COMMAND ...`: import of the module of a command, and its execution.

Only the module of the given command is imported, so that the first output comes at once.
"""

import importlib
import io
import os
import sys
import traceback
from collections.abc import Sequence
from typing import Final

# command -> (module with run(arguments) -> exit code, one line for the list)
COMMANDS: Final[dict[str, tuple[str, str]]] = {
    "storage": ("cli.storage", "cluster ids, formatting of log directories, what they hold"),
    "dev": ("cli.dev", "run a cluster for development until Ctrl-C"),
    "server": ("cli.server", "start a node from its server.properties, ask whether it is ready"),
    "cluster": ("cli.admin.cluster", "cluster id, endpoints, unregister a broker"),
    "quorum": ("cli.admin.quorum", "state and voters of the metadata quorum"),
    "features": ("cli.admin.features", "finalized feature levels: describe and change"),
    "topics": ("cli.admin.topics", "create, list, describe, alter, delete topics"),
    "configs": ("cli.admin.configs", "configs, client quotas, SCRAM credentials"),
    "acls": ("cli.admin.acls", "add, list, remove access control lists"),
    "reassign": ("cli.admin.reassign", "move partitions between brokers"),
    "leader-election": ("cli.admin.leader_election", "elect preferred or unclean leaders"),
    "get-offsets": ("cli.records.get_offsets", "offsets of partitions at a time"),
    "console-consumer": ("cli.records.console_consumer", "records to standard output"),
    "groups": ("cli.groups.consumer_groups", "consumer groups: lag, members, reset, delete"),
    "all-groups": ("cli.groups.all_groups", "groups of every kind"),
    "console-producer": ("cli.records.console_producer", "lines of standard input as records"),
    "producer-perf-test": ("cli.records.producer_perf_test", "rate and latency of producing"),
    "verifiable-producer": ("cli.records.verifiable_producer", "numbers, a JSON line each"),
    "verifiable-consumer": (
        "cli.groups.verifiable_consumer",
        "a member of a group, a JSON line for all that happens",
    ),
    "consumer-perf-test": ("cli.groups.consumer_perf_test", "rate of consuming"),
    "transactions": (
        "cli.transactions.command",
        "list and describe transactions, find and abort hanging ones",
    ),
    "delete-records": ("cli.records.delete_records", "delete the records below an offset"),
    "log-dirs": ("cli.records.log_dirs", "sizes of partitions in the brokers' directories"),
    "dump-log": ("cli.offline.dump_log", "print segments, snapshots and indexes"),
    "at": ("cli.offline.at", "the metadata as it was at an offset"),
    "diff": ("cli.offline.diff", "what differs between two offsets, or two folders"),
    "recover": (
        "cli.offline.recover",
        "a quorum that lost its majority goes on with one voter",
    ),
    "log": (
        "cli.offline.log_verify",
        "verify log directories: checksums, indexes, epochs, equality",
    ),
    "completion": ("cli.completion", "completion for bash, zsh, fish"),
    "jepsen": ("cli.jepsen", "judge whether recorded histories are linearizable"),
    "pipeline": ("cli.pipeline", "jobs over log directories: history, audit, export, ..."),
    "sim": ("cli.sim", "run simulated clusters with faults and check their invariants"),
}
# commands whose exit code 1 is a verdict -> codes without one: (wrong command line, other failure)
NO_VERDICT: Final[dict[str, tuple[int, int]]] = {
    "verify": (2, 2),
    "run": (254, 255),
    "check": (254, 255),
}


def usage() -> str:
    """The list of commands."""
    lines = [f"  {name:<16} {text}" for name, (_, text) in COMMANDS.items()]
    return "\n".join(["usage: kraftline COMMAND ...", "", *lines, ""])


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line, by default that of the process, and return the exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if sys.stdout is None:  # closed by the caller: a write must fail as the system says it
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_RDONLY), "w", encoding="utf-8")
    if sys.stderr is None:
        sys.stderr = io.StringIO()
    try:
        exit_code = _run(words)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader of our output is gone: write nothing more, not even at the end of the process.
        _give_up_output()
        return _failure_codes(words)[1]
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        if words[:1] != ["jepsen"] and not isinstance(error, OSError):
            raise
        _report(words, error)
        return _failure_codes(words)[1]
    return exit_code


def _failure_codes(words: list[str]) -> tuple[int, int]:
    """Exit codes of a wrong command line, and of a failure without a result of the command."""
    if words[:1] != ["jepsen"]:
        return 1, 1
    return NO_VERDICT.get(words[1], (2, 2)) if len(words) > 1 else (2, 2)


def _report(words: list[str], error: Exception) -> None:
    """Print one line for a system error, such as a full disk; a stack for an internal error."""
    command = " ".join(["kraftline", *words[: 2 if words[:1] == ["jepsen"] else 1]])
    try:
        if isinstance(error, OSError):
            where = "" if error.filename is None else f"{str(error.filename)[:80]}: "
            why = error.strerror or str(error) or type(error).__name__
            sys.stderr.write(f"{command}: {where}{why}\n")
        else:
            traceback.print_exception(error)
            sys.stderr.write(f"{command}: no verdict: {type(error).__name__}\n")
    except OSError:
        pass
    _give_up_output()


def _give_up_output() -> None:
    """Discard output that cannot be written, including what is still buffered."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _run(words: list[str]) -> int:
    for word in words:
        if _is_bytes(word):
            sys.stderr.write(f"an argument is not UTF-8: {word[:80]!r}\n")
            return _failure_codes(words)[0]
    if words[:1] in (["-h"], ["--help"]):
        sys.stdout.write(usage())
        return 0
    if words[-1:] == ["--version"] and (len(words) == 1 or words[0] in COMMANDS):
        packages = importlib.import_module("importlib.metadata")  # 40 ms, for this alone
        sys.stdout.write(f"kraftline {packages.version('kraftline')}\n")
        return 0
    if not words or words[0] not in COMMANDS:
        unknown = f"unknown command '{words[0][:80]}'\n" if words else ""
        sys.stderr.write(unknown + usage())
        return 2
    module = importlib.import_module(COMMANDS[words[0]][0])
    exit_code = module.run(words[1:])
    assert isinstance(exit_code, int)
    return exit_code


def _is_bytes(word: str) -> bool:
    """Return True if a word holds bytes that are not text: Python passes lone surrogates."""
    return any("\ud800" <= character <= "\udfff" for character in word)


if __name__ == "__main__":
    raise SystemExit(main())
