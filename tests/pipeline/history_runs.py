"""Runs of the job `history`, by the local engine unless a master is named, and what they hold."""

import json
from argparse import ArgumentParser
from pathlib import Path

import pyarrow.dataset as ds

from metadata.time_travel import Replay
from pipeline.jobs.history import run as history
from pipeline.jobs.history.schema import REPORTS, SCD_TABLES
from pipeline.jobs.job import JobConfig

TABLES = (*SCD_TABLES, *REPORTS, "records", "controller_epochs")


def configured(root, out, *flags, run_id="r", master=None):
    """A run of the job."""
    parser = ArgumentParser()
    history.add_arguments(parser)
    return JobConfig(
        inputs=(str(root),), output=str(out), run_id=run_id, master=master,
        arguments=parser.parse_args(flags),
    )  # fmt: skip


def build(root, out, *flags, run_id="r", master=None):
    """Run it."""
    return history.build(configured(root, out, *flags, run_id=run_id, master=master))


def contents(root):
    """All rows of all tables, in an order that is always the same."""
    found = {}
    for name in TABLES:
        files = sorted(map(str, Path(root, name).rglob("*.parquet")))
        rows = ds.dataset(files).to_table().to_pylist() if files else []
        found[name] = sorted(json.dumps(row, sort_keys=True, default=str) for row in rows)
    return found


def position_of(content, offset):
    """The byte at which the batch of an offset begins."""
    position = 0
    while position < len(content):
        if int.from_bytes(content[position : position + 8], "big") >= offset:
            return position
        position += 12 + int.from_bytes(content[position + 8 : position + 12], "big")
    return position


def image_at(batches, end):
    replay = Replay(end)
    replay.take(batches)
    return replay.image
