"""Delta tables whose files are written by Arrow and committed by `deltalake`: no JVM.

A commit adds files that are at their places already, takes others out, and has two things of ours,
in the same transaction: a property (a JSON object below `kraftline`) with the state of the one who
wrote it, and a transaction identifier (`txn` of the Delta protocol) with a number that rises. The
number outlasts checkpoints; the property is found in the log as long as the log has the commit
(`delta.logRetentionDuration`, 30 days).
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa
from deltalake import DeltaTable, Schema
from deltalake.exceptions import DeltaError
from deltalake.transaction import (
    AddAction,
    CommitProperties,
    RemoveAction,
    Transaction,
    create_table_with_add_actions,
)

from pipeline.core.errors import BadInputError

LOG_NAME: Final = "_delta_log"
_LOG_SUFFIXES: Final = (".json", ".parquet")
_PROPERTY: Final = "kraftline"
_LOOKS: Final = (1, 32, None)  # commits that are looked at for ours, the newest first


class DeltaFile(msgspec.Struct, frozen=True, kw_only=True):
    """A Parquet file of a table: its path below the table's folder, and what the log says of it.

    `partitions` are the values of the partition columns, None for null; `bounds` the lowest and
    highest value of columns, where they are known.
    """

    path: str
    size_bytes: int
    rows: int
    modified_ms: int
    partitions: Mapping[str, str | None] = {}
    bounds: Mapping[str, tuple[int, int]] = {}


class DeltaCommit(msgspec.Struct, frozen=True, kw_only=True):
    """Changes of one transaction, and what it says of itself; `now_ms` is when files go."""

    app: str
    number: int
    state: Mapping[str, Any]
    add: Sequence[DeltaFile] = ()
    remove: Sequence[str] = ()
    now_ms: int = 0


def is_begun(root: Path) -> bool:
    """Return True if a folder has the log of a table: commits, or a checkpoint of them.

    A writer that is killed before its first commit leaves a folder of the log without either.
    """
    return any(path.suffix in _LOG_SUFFIXES for path in (root / LOG_NAME).glob("*"))


class Delta:
    """A Delta table in a folder, which need not exist yet; looked at once, when this is made.

    Raises:
        BadInputError: its log cannot be read.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._table: DeltaTable | None = None
        if is_begun(root):
            with _errors(root):
                self._table = DeltaTable(str(root))

    @property
    def exists(self) -> bool:
        """True if there is a table."""
        return self._table is not None

    def number(self, app: str) -> int | None:
        """The number of the last commit of an application; None without one."""
        if self._table is None:
            return None
        with _errors(self.root):
            found: int | None = self._table.transaction_version(app)
        return found

    def state(self, app: str) -> dict[str, Any]:
        """The state that the last commit of an application has; there must be one.

        Raises:
            BadInputError: the log no longer has that commit.
        """
        assert self._table is not None
        number = self.number(app)
        for limit in _LOOKS:
            with _errors(self.root):
                commits = self._table.history(limit)
            for commit in commits:
                found = commit.get(_PROPERTY)
                if not isinstance(found, dict):
                    continue
                if (found.get("app"), found.get("number")) == (app, number):
                    return dict(found["state"])
        raise BadInputError(
            f"{self.root}: the log no longer has commit {number} of {app}, so nothing can be added"
            " (delta.logRetentionDuration)"
        )

    def files(self) -> list[str]:
        """Paths of the files that count, below the table's folder."""
        if self._table is None:
            return []
        with _errors(self.root):
            return [str(path) for path in pa.table(self._table.get_add_actions())["path"]]

    def check_schema(self, schema: pa.Schema, partition_by: Sequence[str]) -> None:
        """Refuse a table whose columns of these names are of other types.

        Raises:
            BadInputError: another type, or other partition columns; the text names both.
        """
        if self._table is None:
            return
        theirs = list(self._table.metadata().partition_columns)
        if theirs != list(partition_by):
            raise BadInputError(
                f"{self.root}: the table is partitioned by {_names(theirs)}, not by"
                f" {_names(partition_by)}"
            )
        known = {field.name: field.type for field in self._table.schema().fields}
        for field in Schema.from_arrow(schema).fields:
            is_type = known.get(field.name, field.type)
            if is_type != field.type:
                raise BadInputError(
                    f"{self.root}: column {field.name} is {_type(is_type)}, not {_type(field.type)}"
                )

    def commit(self, commit: DeltaCommit, schema: pa.Schema, partition_by: Sequence[str]) -> None:
        """Make one transaction; columns that the table lacks are added to it before.

        Args:
            commit: what it changes.
            schema: columns of the added files, with the partition columns.
            partition_by: partition columns.

        Raises:
            BadInputError: as `check_schema`, or another writer was in the way.
        """
        self.check_schema(schema, partition_by)
        said = {"app": commit.app, "number": commit.number, "state": dict(commit.state)}
        properties = CommitProperties(
            custom_metadata={_PROPERTY: said},
            app_transactions=[Transaction(commit.app, commit.number)],
        )
        added = [_add_action(one) for one in commit.add]
        with _errors(self.root):
            if self._table is None:
                assert not commit.remove
                create_table_with_add_actions(
                    str(self.root), Schema.from_arrow(schema), added, mode="error",
                    partition_by=list(partition_by), commit_properties=properties,
                )  # fmt: skip
            else:
                self._add_columns(schema)
                removed = [
                    RemoveAction(path, data_change=True, deletion_timestamp=commit.now_ms)
                    for path in commit.remove
                ]
                self._table.create_write_transaction(
                    [*added, *removed], "append", self._table.schema(), list(partition_by),
                    commit_properties=properties,
                )  # fmt: skip
            self._table = DeltaTable(str(self.root))

    def _add_columns(self, schema: pa.Schema) -> None:
        assert self._table is not None
        known = {field.name for field in self._table.schema().fields}
        new = [field for field in Schema.from_arrow(schema).fields if field.name not in known]
        if new:
            self._table.alter.add_columns(new)


def _add_action(file: DeltaFile) -> AddAction:
    stats = {
        "numRecords": file.rows,
        "minValues": {name: low for name, (low, _) in file.bounds.items()},
        "maxValues": {name: high for name, (_, high) in file.bounds.items()},
    }
    return AddAction(
        path=file.path, size=file.size_bytes, partition_values=dict(file.partitions),
        modification_time=file.modified_ms, data_change=True, stats=json.dumps(stats),
    )  # fmt: skip


@contextmanager
def _errors(root: Path) -> Iterator[None]:
    """Turn errors of `deltalake` about a table into bad input."""
    try:
        yield
    except DeltaError as error:
        raise BadInputError(f"{root}: {str(error).partition(chr(10))[0]}") from error


def _names(columns: Sequence[str]) -> str:
    return ", ".join(columns) or "nothing"


def _type(found: Any) -> str:
    return str(getattr(found, "type", found))
