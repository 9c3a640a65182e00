"""Requests about offsets in a transaction, in kio's newest shape."""

from typing import Any

from simulator.checks.partitions.groups import Commit
from simulator.records.requests import Producer
from wire.api_keys import ADD_OFFSETS_TO_TXN, TXN_OFFSET_COMMIT
from wire.messages import codec


def add_offsets(transactional_id: str, producer: Producer, group_id: str) -> Any:
    """AddOffsetsToTxn of one group."""
    new = codec.newest(ADD_OFFSETS_TO_TXN, "request")
    return new.AddOffsetsToTxnRequest(
        transactional_id=transactional_id,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        group_id=group_id,
    )


def commit_in_transaction(
    transactional_id: str, producer: Producer, commit: Commit, topic: str
) -> Any:
    """TxnOffsetCommit of offsets in one topic, by the member that has read them."""
    new = codec.newest(TXN_OFFSET_COMMIT, "request")
    rows = tuple(
        new.TxnOffsetCommitRequestPartition(
            partition_index=partition,
            committed_offset=commit.offsets[partition],
            committed_metadata=commit.metadata,
        )
        for partition in sorted(commit.offsets)
    )
    by = commit.by
    return new.TxnOffsetCommitRequest(
        transactional_id=transactional_id,
        group_id=by.group_id,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        generation_id=by.epoch,
        member_id=by.member_id,
        group_instance_id=by.instance_id,
        topics=(new.TxnOffsetCommitRequestTopic(name=topic, partitions=rows),),
    )
