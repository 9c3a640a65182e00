"""Finished seeds in a file, one JSON object a line; a run goes on where the last one ended."""

from pathlib import Path

import msgspec

from simulator.campaign.campaign import Result
from simulator.campaign.draw import Options


class LedgerError(Exception):
    """The file is no ledger."""


class Line(msgspec.Struct, kw_only=True):
    """One line of a ledger."""

    commit: str
    options: Options
    is_twice: bool
    result: Result


class SeedLedger:
    """Ledger of one campaign after the other, of any commits and options.

    Args:
        path: the file; made with the first result.
        commit: name of the code that runs; results of other code do not count.
        options: of the seeds.
        is_twice: each seed runs twice.
    """

    def __init__(self, path: Path, commit: str, options: Options, *, is_twice: bool) -> None:
        self._path = path
        self._commit = commit
        self._options = options
        self._is_twice = is_twice
        self.cut_off = 0
        """Lines that `known` left out because a run ended in the middle of them."""

    def known(self) -> dict[int, Result]:
        """Results of the same code and options.

        Raises:
            LedgerError: no line of the file is a result, so it is not a ledger.
        """
        if not self._path.exists():
            return {}
        found, is_ledger = {}, False
        lines = self._path.read_bytes().splitlines()
        self.cut_off = 0
        for content in lines:
            try:
                line = msgspec.json.decode(content, type=Line)
            except (ValueError, RecursionError):
                self.cut_off += 1
                continue
            is_ledger = True
            same = (line.commit, line.options, line.is_twice)
            if same == (self._commit, self._options, self._is_twice):
                found[line.result.seed] = line.result
        if lines and not is_ledger:
            raise LedgerError(f"{self._path} is no ledger of seeds: no line of it is a result")
        return found

    def add(self, result: Result) -> None:
        """Append one line; after one that was cut off it begins a new one."""
        line = Line(
            commit=self._commit, options=self._options, is_twice=self._is_twice, result=result
        )
        with self._path.open("a+b") as file:
            end = file.seek(0, 2)
            file.seek(max(0, end - 1))
            is_cut_off = file.read(1) not in (b"", b"\n")
            file.write((b"\n" if is_cut_off else b"") + msgspec.json.encode(line) + b"\n")
