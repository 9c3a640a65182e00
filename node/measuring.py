"""Measurements of what a node does between its driver's callbacks."""

import time
from collections.abc import Iterator

from inspection.recorder import Recorder
from kernel.decoding import Decoding
from metadata.loader import CommittedBatch, committed_batches


def measured_decoding(recorder: Recorder) -> Decoding:
    """Decode from bytes; `recorder` gets the time that each batch takes to be applied."""

    def read_batches(content: bytes) -> Iterator[CommittedBatch]:
        for batch in committed_batches(content):
            started_ns = time.monotonic_ns()
            yield batch
            recorder.applied(len(batch.records), time.monotonic_ns() - started_ns)

    return Decoding(read_batches=read_batches, nanoseconds=time.perf_counter_ns)
