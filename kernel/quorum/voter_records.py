"""Level and voters as control records: of the log, snapshots and the 0-0 checkpoint (KIP-853).

Source: apache/kafka: raft/.../VoterSet.java (`fromVotersRecord`, `toVotersRecord`),
raft/.../internals/BatchAccumulator.java (`appendControlMessages`).
"""

from collections.abc import Iterable, Iterator, Sequence

from metadata.control_records import (
    KRAFT_VERSION,
    KRAFT_VOTERS,
    ControlRecord,
    KRaftVersion,
    KRaftVersionRange,
    KRaftVoters,
    LeaderChange,
    LeaderChangeVoter,
    VoterEndpoint,
    control_type,
    decode_control,
    encode_control,
)
from metadata.control_records import Voter as WireVoter
from metadata.schema import MetadataRecordError
from raft.effects import AppendLeaderChange, AppendVoters
from raft.membership.voter_history import KRaftVersionAt, Membership, VoterRecord, VotersAt
from raft.membership.voters import Voter, VoterSet, voter_set
from wire.batches.batch import Batch, encode_control_batch
from wire.types import ZERO_UUID, DirectoryId, Endpoint, LeaderEpoch, Offset, ReplicaKey


def epoch_start_batch(effect: AppendLeaderChange, timestamp_ms: int) -> bytes:
    """Return the one control batch that starts an epoch: LeaderChange, then any membership."""
    change = LeaderChange(
        leader_id=effect.leader_id,
        voters=tuple(LeaderChangeVoter(voter_id=voter) for voter in effect.voters),
        granting_voters=tuple(
            LeaderChangeVoter(voter_id=voter) for voter in effect.granting_voters
        ),
    )
    more = () if effect.membership is None else membership_records(effect.membership)
    records = [encode_control(record) for record in (change, *more)]
    return encode_control_batch(records, effect.base_offset, effect.epoch, timestamp_ms)


def control_batch_of(effect: AppendLeaderChange | AppendVoters, timestamp_ms: int) -> bytes:
    """Return the control batch of an effect."""
    if isinstance(effect, AppendLeaderChange):
        return epoch_start_batch(effect, timestamp_ms)
    return voters_batch(effect, timestamp_ms)


def voters_batch(effect: AppendVoters, timestamp_ms: int) -> bytes:
    """Return the one control batch of a change: a new level first, then the voters."""
    level = effect.kraft_version
    records: list[ControlRecord] = [] if level is None else [KRaftVersion(k_raft_version=level)]
    records.append(_to_record(effect.voters))
    encoded = [encode_control(record) for record in records]
    return encode_control_batch(encoded, effect.base_offset, effect.epoch, timestamp_ms)


def voter_sets_batch(
    sets: Sequence[VoterSet], base_offset: Offset, epoch: LeaderEpoch, timestamp_ms: int
) -> bytes:
    """Return one control batch with several voter sets, each a record, in their order."""
    encoded = [encode_control(_to_record(voters)) for voters in sets]
    return encode_control_batch(encoded, base_offset, epoch, timestamp_ms)


def membership_records(membership: Membership) -> tuple[ControlRecord, ...]:
    """Return the control records of a membership, none at kraft.version 0: level, then voters."""
    if membership.kraft_version == 0:
        return ()
    level = KRaftVersion(k_raft_version=membership.kraft_version)
    voters = membership.voters
    return (level,) if voters is None else (level, _to_record(voters))


def membership_of(records: Iterable[ControlRecord]) -> Membership:
    """Return what the control records of a snapshot or of the 0-0 checkpoint say.

    Raises:
        MetadataRecordError: no quorum has such voters, or such a level.
    """
    level, voters = 0, None
    for record in records:
        if isinstance(record, KRaftVersion):
            level = _level_of(record)
        elif isinstance(record, KRaftVoters):
            voters = _from_record(record)
    return Membership(level, voters)


def voter_records(batches: Iterable[Batch]) -> Iterator[VoterRecord]:
    """Yield what control batches of the log say about the voters, with offsets, ascending.

    Raises:
        MetadataRecordError: a record is damaged, or no quorum has such voters or such a level.
        CorruptBatchError: a batch is damaged.
    """
    for batch in batches:
        for index, view in enumerate(batch.records()):
            number = control_type(view.key)
            if number not in (KRAFT_VERSION, KRAFT_VOTERS):
                continue
            record = decode_control(number, view.value)
            offset = batch.header.base_offset + index
            if isinstance(record, KRaftVersion):
                yield KRaftVersionAt(offset, _level_of(record))
            elif isinstance(record, KRaftVoters):
                yield VotersAt(offset, _from_record(record))


def _to_record(voters: VoterSet) -> KRaftVoters:
    return KRaftVoters(voters=tuple([_to_wire(voters.by_id[each]) for each in voters.ids]))


def _to_wire(voter: Voter) -> WireVoter:
    return WireVoter(
        voter_id=voter.key.id,
        voter_directory_id=voter.key.directory_id or DirectoryId(ZERO_UUID),
        endpoints=tuple(
            VoterEndpoint(name=each.listener, host=each.host, port=each.port)
            for each in voter.endpoints
        ),
        k_raft_version_feature=KRaftVersionRange(
            min_supported_version=voter.kraft_version_min,
            max_supported_version=voter.kraft_version_max,
        ),
    )


def _level_of(record: KRaftVersion) -> int:
    if record.k_raft_version < 0:
        raise MetadataRecordError(f"kraft.version cannot be {record.k_raft_version}")
    return record.k_raft_version


def _from_record(record: KRaftVoters) -> VoterSet:
    """Return the voters of a record, which a peer or a file may have damaged."""
    voters = tuple(map(_from_wire, record.voters))
    ids = [voter.key.id for voter in voters]
    if not ids or len(set(ids)) != len(ids) or min(ids) < 0:
        raise MetadataRecordError(f"no quorum has the voters {ids}")
    return voter_set(voters)


def _from_wire(voter: WireVoter) -> Voter:
    directory_id = voter.voter_directory_id
    supported = voter.k_raft_version_feature
    return Voter(
        ReplicaKey(voter.voter_id, None if directory_id == ZERO_UUID else directory_id),
        tuple(Endpoint(each.name, each.host, each.port) for each in voter.endpoints),
        supported.min_supported_version,
        supported.max_supported_version,
    )
