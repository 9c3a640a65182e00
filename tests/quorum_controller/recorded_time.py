"""End of a scenario's log when a recorded request came, found by time alone.

The frames have the milliseconds since their recording began, the batches of the log the wall clock
of Kafka's leader. What joins them is a DescribeQuorum answer, in which the leader says the time at
which it gave it. Nothing of ours decides the place, so that an answer or a record of ours can only
be right or wrong there.
"""

from functools import cache

from metadata.records import NoOpRecord
from tests.metadata.golden_logs import log_batches
from tests.quorum_controller.history import MARKERS, history
from tests.wire.recorded_pairs import pairs

DESCRIBE_QUORUM = 55
ANSWER_MS = 4
"""Longest time of the answer: the leader says its own time, the frame has the request's."""
AT_ONCE_MS = 20
"""Longest time from a heartbeat to the batch with its records."""


@cache
def clock_start_ms(scenario):
    """The wall clock when the recording of a scenario began."""
    found = []
    for pair in pairs():
        if pair["scenario"] == scenario and pair["api_key"] == DESCRIBE_QUORUM:
            (topic,) = pair["decoded"]["response"]["body"]["topics"]
            (partition,) = topic["partitions"]
            (leader,) = [
                voter
                for voter in partition["currentVoters"]
                if voter["replicaId"] == partition["leaderId"]
            ]
            found.append(leader["lastFetchTimestamp"] - pair["ms"])
    return min(found) - ANSWER_MS


@cache
def _ends(scenario):
    return [(batch.timestamp_ms, batch.end_offset) for batch in log_batches(scenario)]


def asked_ms(sample):
    """The wall clock when the request of a sample came."""
    return clock_start_ms(sample["scenario"]) + sample["ms"]


def end_offset_at(sample):
    """The end of the log when the request of a sample came (exclusive)."""
    return max(end for ms, end in _ends(sample["scenario"]) if ms < asked_ms(sample))


@cache
def _changes(scenario):
    """(time of the batch, offset, record) of what requests wrote: no no-op records, no marks."""
    return [
        (batch.timestamp_ms, batch.base_offset + index, record)
        for batch in log_batches(scenario)
        for index, record in enumerate(batch.records)
        if not isinstance(record, (NoOpRecord, *MARKERS))
    ]


def place(sample, end_offset=None):
    """(offset, image, (offset, record) of the changes from there on) where a request came.

    `end_offset`: where that is not the end of the log at its time.
    """
    end = end_offset_at(sample) if end_offset is None else end_offset
    scenario = sample["scenario"]
    offset, image, _ = next(row for row in history(scenario) if row[0] >= end)
    return offset, image, [(at, record) for _, at, record in _changes(scenario) if at >= offset]


def written_ms(scenario, offset):
    """Time at which the batch was begun that has the change at an offset."""
    return next(ms for ms, at, _ in _changes(scenario) if at == offset)


def changes_at_once(sample):
    """The records of batches that were begun when a request came, or soon after."""
    asked = asked_ms(sample)
    return [
        record
        for ms, _, record in _changes(sample["scenario"])
        if asked - ANSWER_MS <= ms <= asked + AT_ONCE_MS
    ]


@cache
def last_changes(scenario):
    """The offset of the last record of each batch, but for no-op records.

    With a batch ends what one request wrote; Kafka's leader may append several of them at once.
    """
    changes = [
        [
            batch.base_offset + index
            for index, record in enumerate(batch.records)
            if not isinstance(record, NoOpRecord)
        ]
        for batch in log_batches(scenario)
    ]
    return {offsets[-1] for offsets in changes if offsets}
