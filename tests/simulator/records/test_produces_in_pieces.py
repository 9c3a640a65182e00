"""A cluster whose Produces are all done in pieces, each batch decoded record by record."""

import pytest
from msgspec.structs import replace

from broker.apis.records import produce
from replication.leader import appends
from replication.leader.appends import Appends
from simulator.campaign.draw import RECORDS_SHORT
from simulator.records.run import run_records
from storage.logs import log_validator

SHORT = replace(RECORDS_SHORT, node_count=3, observer_count=0, duration_us=1_000_000)


def test_what_is_acknowledged_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    in_steps, counts = Appends.append_in_steps, [0]

    def counted(*args, **fields):
        counts[0] += 1
        return in_steps(*args, **fields)

    monkeypatch.setattr(Appends, "append_in_steps", counted)
    monkeypatch.setattr(produce, "SMALL_MAX", 0)
    monkeypatch.setattr(produce, "PIECE", 1)
    monkeypatch.setattr(appends, "PIECE_UNITS", 1)
    monkeypatch.setattr(log_validator, "SLICE", 1)
    monkeypatch.setattr(log_validator, "SMALL_BYTES_MAX", 0)
    monkeypatch.setattr(log_validator, "_needs_records", lambda *_: True)
    outcome = run_records(5, SHORT)
    assert (outcome.invariant, outcome.text) == (None, "")
    assert counts[0] >= outcome.acknowledged // 4 > 0
