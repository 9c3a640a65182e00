"""Metadata records to typed events and to the `records` archive: the work of a task of `history`.

A record is decoded once, by `metadata.record_codec`. A task writes Parquet files with
Arrow: no bulk data passes through the JVM's rows. Secrets (SCRAM credentials, password
configs) are hidden here, so that no file ever holds them, unless `reveal` is set.
"""

import gc
from base64 import b64encode
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from metadata import record_codec
from metadata import records as m
from metadata.config_schema import broker_config
from metadata.image import sorted_directories
from metadata.json_form import uuid_text
from metadata.json_source import record_json_text
from metadata.schema import MetadataRecordError, Record, UnknownRecord
from pipeline.core.reading.options import Options
from pipeline.core.reading.reader import Piece
from pipeline.core.records.json_records import describe_metadata
from pipeline.jobs.history.input import Transaction, log_rows, snapshot_time
from pipeline.jobs.history.overlay import CHANGED, RESET
from pipeline.jobs.history.packed_lists import pack
from pipeline.jobs.history.schema import EVENTS
from pipeline.jobs.history.sink import RECORDS_NAME, EventSink
from wire.types import DIRECTORY_MIGRATING

HIDDEN: Final = "[hidden]"
_ROWS_MAX: Final = 65_536
_MILLION: Final = 1_000_000
_NO_OP_KEY: Final = bytes([m.NoOpRecord.api_key])
_PARTITION_SIZE: Final = 120
_dumps = msgspec.json.Encoder().encode

Place = tuple[int, int, int, int, Any, int, str, bool]


class EventPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Parameters of every decoding task of a run.

    `snapshot_end` is set for a snapshot: its records get the offset before it.
    """

    events: str  # folder of the events, one folder per kind below
    archive: str | None  # folder for `records`; None for no archive
    label: str = "0"  # differs between runs that feed one archive
    buckets: int = 1  # number of buckets of partitions
    transactions: tuple[Transaction, ...] = ()
    snapshot_end: int | None = None
    reveal: bool = False


class EventCounts(msgspec.Struct, frozen=True):
    """Counts of the records that a task has written."""

    records: int = 0
    unknown: int = 0
    aborted: int = 0


def write_events(pieces: Sequence[Piece], options: Options, plan: EventPlan) -> EventCounts:
    """Decode the records of the pieces; files get their names when all pieces are read.

    Raises:
        CorruptSegmentError: a damaged batch, or a record that cannot be read.
    """
    sink = EventSink(plan, f"{plan.label}-{int(plan.snapshot_end is None)}-{_name(pieces)}")
    writer = _Writer(sink, plan)
    batches: Iterable[pa.RecordBatch] = log_rows(pieces, options)
    if plan.snapshot_end is not None:
        writer.snapshot_time, batches = snapshot_time(iter(batches))
    try:
        with without_collector():
            for batch in batches:
                writer.take(batch)
            sink.publish()
    finally:
        sink.discard()
    return writer.counts


@contextmanager
def without_collector() -> Iterator[None]:
    """Run a block without looking for cycles: rows have none, and it took a sixth of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _name(pieces: Sequence[Piece]) -> str:
    first = pieces[0].split
    return f"{first.file.name.rpartition('.')[0]}-{first.start:012d}"


class _Writer:
    """Writer of records in offset order, which passes rows to the sink."""

    def __init__(self, sink: EventSink, plan: EventPlan) -> None:
        self.snapshot_time: Any = None
        self._sink = sink
        self._plan = plan
        self._begins = [found.begin for found in plan.transactions]
        self._records = self._unknown = self._aborted = 0
        self._packed: dict[tuple[int, ...] | None, bytes | None] = {None: None}
        self._uuids: dict[bytes, str] = {}
        self._snapshot_idx = 0

    @property
    def counts(self) -> EventCounts:
        """Counts of the records so far."""
        return EventCounts(self._records, self._unknown, self._aborted)

    def take(self, rows: pa.RecordBatch) -> None:
        """Write records of a file in offset order, as `log_rows` yields them, without NoOps."""
        plain = rows.filter(pc.invert(rows.column("isControl")))
        names = ("offset", "batchBaseOffset", "leaderEpoch", "timestamp", "value")
        # times as integers: a datetime costs as much as decoding the record
        columns = [
            plain.column(name).view(pa.int64()).to_pylist() if name == "timestamp"
            else plain.column(name).to_pylist()
            for name in names
        ]  # fmt: skip
        for offset, batch, epoch, time, value in zip(*columns, strict=True):
            if value[1:2] != _NO_OP_KEY:  # a shorter value is a damaged record
                self._take_record(offset, batch, epoch, time, value)

    def _take_record(self, offset: int, batch: int, epoch: int, time: Any, value: bytes) -> None:
        self._records += 1
        seed = self._plan.snapshot_end is not None
        idx = offset - batch
        if self._plan.snapshot_end is not None:
            offset = batch = self._plan.snapshot_end - 1
            idx, time = self._snapshot_idx, self.snapshot_time
            self._snapshot_idx += 1
        found = self._transaction(offset)
        aborted = found is not None and found.is_aborted
        try:
            record: Record | None = record_codec.decode(value)
        except MetadataRecordError:
            record = None
        self._archive(record, value, (offset, idx, batch, epoch, time), found)
        if record is None or isinstance(record, UnknownRecord):
            self._unknown += 1
            return
        if aborted:
            self._aborted += 1
            return
        visible, place_batch, place_time = offset, batch, time
        if found is not None and offset < found.end:
            visible, place_batch, place_time = found.end, found.batch_offset, found.time
        make = _EVENTS.get(type(record))
        if make is not None:
            place = (visible, offset, idx, place_batch, place_time, epoch, record.type_name, seed)
            make(self, record, place)

    def _transaction(self, offset: int) -> Transaction | None:
        if not self._begins:
            return None
        index = bisect_right(self._begins, offset) - 1
        if index < 0 or offset > self._plan.transactions[index].end:
            return None
        return self._plan.transactions[index]

    def _archive(
        self, record: Record | None, value: bytes, place: tuple[Any, ...],
        found: Transaction | None,
    ) -> None:  # fmt: skip
        if self._plan.archive is None:
            return
        version: int | None = value[2] if len(value) > 2 and value[2] < 128 else None
        if record is None or isinstance(record, UnknownRecord):
            text, api_key, name, version = describe_metadata(None, value)
            shown = (api_key, name, version)
        else:
            if version is None:
                version = record_codec.decoded_version(value)
            if not self._plan.reveal:
                record = _without_secrets(record)
            text = record_json_text(record, version)
            shown = (record.api_key, record.type_name, version)
        txn, aborted = (None, False) if found is None else (found.begin, found.is_aborted)
        unknown = record is None or isinstance(record, UnknownRecord)
        seed = self._plan.snapshot_end is not None
        row = (*place, *shown, txn, aborted, seed, unknown, text)
        folder = f"{RECORDS_NAME}/offset_million={place[0] // _MILLION}"
        self._sink.add(folder, row, len(text or ""))

    def uuid(self, content: bytes) -> str:
        """Return an id as Kafka shows it; cached, since few topics have most records."""
        text = self._uuids.get(content)
        if text is None:
            if len(self._uuids) > _ROWS_MAX:
                self._uuids.clear()
            text = self._uuids[content] = uuid_text(content)
        return text

    def uuids(self, contents: Iterable[bytes]) -> list[str]:
        """Return several ids as `uuid` does."""
        return [self.uuid(one) for one in contents]

    def packed(self, ids: tuple[int, ...] | None) -> bytes | None:
        """Pack node ids as in `history.packed_lists`; None, for unchanged, stays None."""
        try:
            return self._packed[ids]
        except KeyError:
            if len(self._packed) > _ROWS_MAX:
                self._packed = {None: None}
            found = self._packed[ids] = pack(ids or ())
            return found

    def partition(self, record: m.PartitionRecord, place: Place) -> None:
        """Add an event that resets the partition: every field is set."""
        packed = self.packed
        directories = record.directories or (DIRECTORY_MIGRATING,) * len(record.replicas)
        row = (
            record.topic_id, record.partition_id, RESET, record.leader,
            record.leader_epoch, record.partition_epoch, packed(record.replicas),
            packed(record.isr), packed(record.eligible_leader_replicas or ()),
            packed(record.last_known_elr or ()), packed(record.adding_replicas),
            packed(record.removing_replicas), b"".join(directories),
            record.leader_recovery_state,
        )  # fmt: skip
        self._sink.add("partition", (*row, *place[:6], place[7]), _PARTITION_SIZE)

    def partition_change(self, record: m.PartitionChangeRecord, place: Place) -> None:
        """Add an event that overlays the partition: None for each field that does not change."""
        packed = self.packed
        state = record.leader_recovery_state
        row = (
            record.topic_id, record.partition_id, CHANGED,
            None if record.leader == m.NO_LEADER_CHANGE else record.leader, None, None,
            packed(record.replicas), packed(record.isr), packed(record.eligible_leader_replicas),
            packed(record.last_known_elr), packed(record.adding_replicas),
            packed(record.removing_replicas),
            None if record.directories is None else b"".join(record.directories),
            None if state == m.NO_RECOVERY_STATE_CHANGE else state,
        )  # fmt: skip
        self._sink.add("partition", (*row, *place[:6], place[7]), _PARTITION_SIZE)

    def clear_elr(self, record: m.ClearElrRecord, place: Place) -> None:
        """Add an event that clears the ELRs of one topic, or of all if the name is empty."""
        self._sink.add("clear_elr", (record.topic_name, *place), 100)

    def keyed(
        self, kind: str, key: Any, state: Any, place: Place, owner: str | None = None
    ) -> None:
        """Add the whole state of a key, None if it is removed; it ends with its owner, a topic."""
        text = None if state is None else _dumps(state).decode()
        row = (kind, _dumps(key).decode(), owner, text, *place)
        self._sink.add("keyed", row, 200 + len(text or ""))

    def broker(self, record: Any, place: Place, **changes: Any) -> None:
        """Add an event that overlays a broker: `changes` are columns of `BROKER_EVENTS`."""
        broker_id = record.id if hasattr(record, "id") else record.broker_id
        names = EVENTS["broker"].names[1 : -len(place)]
        defaults = {"is_reset": False, "is_removed": False}
        row = (broker_id, *((defaults | changes).get(name) for name in names), *place)
        self._sink.add("broker", row, 300)

    def register(self, record: m.RegisterBrokerRecord, place: Place) -> None:
        """Add an event that resets the broker: a new incarnation."""
        registration = {
            "broker_epoch": record.broker_epoch,
            "incarnation": uuid_text(record.incarnation_id),
            "endpoints": _endpoints(record.end_points),
            "rack": record.rack,
            "features": _features(record.features),
            "is_migrating": record.is_migrating_zk_broker,
        }
        self.broker(
            record, place, is_reset=True, registration=_dumps(registration).decode(),
            fenced=record.fenced, in_shutdown=record.in_controlled_shutdown,
            log_dirs=self.uuids(sorted_directories(record.log_dirs)),
            cordoned=self.cordoned(record.cordoned_log_dirs) or "null",
        )  # fmt: skip

    def registration_change(self, record: m.BrokerRegistrationChangeRecord, place: Place) -> None:
        """Add changes of fencing, shutdown and directories; an empty list of directories: none."""
        directories = self.uuids(sorted_directories(record.log_dirs)) if record.log_dirs else None
        self.broker(
            record, place, fenced=_FENCED.get(record.fenced),
            in_shutdown=True if record.in_controlled_shutdown == 1 else None,
            log_dirs=directories, cordoned=self.cordoned(record.cordoned_log_dirs),
        )  # fmt: skip

    def cordoned(self, directories: Any) -> str | None:
        """Return cordoned directories as JSON; None, for unchanged, stays None."""
        if directories is None:
            return None
        return _dumps(self.uuids(sorted_directories(directories))).decode()

    def config(self, record: m.ConfigRecord, place: Place) -> None:
        """Add a config; a null value removes it, a secret one is hidden."""
        hidden = not self._plan.reveal and _is_secret(record)
        state = None
        if record.value is not None:
            state = {
                "resource_type": record.resource_type,
                "resource": record.resource_name,
                "name": record.name,
                "value": HIDDEN if hidden else record.value,
                "is_sensitive_masked": hidden,
            }
        key = [record.resource_type, record.resource_name, record.name]
        owner = record.resource_name if record.resource_type == m.CONFIG_TOPIC else None
        self.keyed("configs", key, state, place, owner)

    def quota(self, record: m.ClientQuotaRecord, place: Place) -> None:
        """Add a quota of an entity, with its parts sorted by type."""
        entity = {part.entity_type: part.entity_name for part in record.entity}
        entity = dict(sorted(entity.items()))
        state = {"entity": entity, "key": record.key, "value": record.value}
        self.keyed("quotas", [entity, record.key], None if record.remove else state, place)

    def scram(self, record: m.UserScramCredentialRecord, place: Place) -> None:
        """Add a SCRAM credential; salt and keys are hidden unless `reveal` is set."""
        state = {"name": record.name, "mechanism": record.mechanism,
                 "iterations": record.iterations}  # fmt: skip
        for name in ("salt", "stored_key", "server_key"):
            content: bytes = getattr(record, name)
            state[name] = b64encode(content).decode() if self._plan.reveal else HIDDEN
        self.keyed("scram", [record.mechanism, record.name], state, place)

    def controller(self, record: m.RegisterControllerRecord, place: Place) -> None:
        """Add a controller's registration."""
        state = {
            "controller_id": record.controller_id,
            "incarnation": uuid_text(record.incarnation_id),
            "zk_migration_ready": record.zk_migration_ready,
            "endpoints": _endpoints(record.end_points),
            "features": _features(record.features),
        }
        self.keyed("controllers", record.controller_id, state, place)

    def token(self, record: m.DelegationTokenRecord, place: Place) -> None:
        """Add a delegation token."""
        state = {
            "token_id": record.token_id, "owner": record.owner, "requester": record.requester,
            "renewers": record.renewers, "issue_timestamp_ms": record.issue_timestamp,
            "max_timestamp_ms": record.max_timestamp,
            "expiration_timestamp_ms": record.expiration_timestamp,
        }  # fmt: skip
        self.keyed("delegation_tokens", record.token_id, state, place)

    def acl(self, record: m.AccessControlEntryRecord, place: Place) -> None:
        """Add an ACL by its id."""
        state = {"id": uuid_text(record.id)}
        for name in ("resource_type", "resource_name", "pattern_type", "principal", "host",
                     "operation", "permission_type"):  # fmt: skip
            state[name] = getattr(record, name)
        self.keyed("acls", state["id"], state, place)


def _endpoints(endpoints: Iterable[m.RegisteredEndpoint]) -> list[dict[str, Any]]:
    return [
        {"name": one.name, "host": one.host, "port": one.port, "protocol": one.security_protocol}
        for one in sorted(
            endpoints, key=lambda one: one.name
        )  # a set: Kafka's snapshots reorder it
    ]


def _features(features: Iterable[m.SupportedFeature]) -> dict[str, dict[str, int]]:
    return {
        one.name: {"min": one.min_supported_version, "max": one.max_supported_version}
        for one in features
    }


def _is_secret(record: m.ConfigRecord) -> bool:
    """Return True if Kafka treats the config as a password, or it is an unknown one of a broker."""
    if record.resource_type != m.CONFIG_BROKER:
        return False
    definition = broker_config(record.name)
    return definition is None or definition.is_sensitive


def _without_secrets(record: Record) -> Record:
    if type(record) is m.UserScramCredentialRecord:
        return msgspec.structs.replace(record, salt=b"", stored_key=b"", server_key=b"")
    if type(record) is m.ConfigRecord and record.value is not None and _is_secret(record):
        return msgspec.structs.replace(record, value=HIDDEN)
    return record


_FENCED: Final = {m.REGISTRATION_FENCE: True, m.REGISTRATION_UNFENCE: False}
_EVENTS: Final[dict[type[Record], Callable[[_Writer, Any, Place], None]]] = {
    m.PartitionRecord: _Writer.partition,
    m.PartitionChangeRecord: _Writer.partition_change,
    m.ClearElrRecord: _Writer.clear_elr,
    m.RegisterBrokerRecord: _Writer.register,
    m.BrokerRegistrationChangeRecord: _Writer.registration_change,
    m.UnregisterBrokerRecord: lambda w, r, p: w.broker(r, p, is_removed=True),
    m.FenceBrokerRecord: lambda w, r, p: w.broker(r, p, fenced=True),
    m.UnfenceBrokerRecord: lambda w, r, p: w.broker(r, p, fenced=False),
    m.TopicRecord: lambda w, r, p: w.keyed(
        "topics", w.uuid(r.topic_id), {"topic_id": w.uuid(r.topic_id), "name": r.name}, p
    ),
    m.RemoveTopicRecord: lambda w, r, p: w.keyed("topics", w.uuid(r.topic_id), None, p),
    m.ConfigRecord: _Writer.config,
    m.ClientQuotaRecord: _Writer.quota,
    m.UserScramCredentialRecord: _Writer.scram,
    m.RemoveUserScramCredentialRecord: lambda w, r, p: w.keyed(
        "scram", [r.mechanism, r.name], None, p
    ),
    m.RegisterControllerRecord: _Writer.controller,
    m.DelegationTokenRecord: _Writer.token,
    m.RemoveDelegationTokenRecord: lambda w, r, p: w.keyed(
        "delegation_tokens", r.token_id, None, p
    ),
    m.AccessControlEntryRecord: _Writer.acl,
    m.RemoveAccessControlEntryRecord: lambda w, r, p: w.keyed("acls", uuid_text(r.id), None, p),
    m.FeatureLevelRecord: lambda w, r, p: w.keyed(
        "features", r.name, {"name": r.name, "level": r.feature_level} if r.feature_level else None,
        p,
    ),
    m.ProducerIdsRecord: lambda w, r, p: w.keyed(
        "producer_ids", "", {"broker_id": r.broker_id, "next": r.next_producer_id}, p
    ),
    m.ZkMigrationStateRecord: lambda w, r, p: w.keyed(
        "zk_migration", "", {"state": r.zk_migration_state}, p
    ),
}  # fmt: skip
