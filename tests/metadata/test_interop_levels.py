"""Trials of Kafka brokers in Kafka clusters: the levels of our table predict each outcome."""

import json

import pytest

from metadata.features import METADATA_VERSION_MIN, metadata_version_level
from tests.metadata.golden_logs import GOLDEN

TRIALS = json.loads((GOLDEN / "interop.json").read_text())
NEWEST = {"3.9.1": "3.9-IV0", "4.3.1": "4.3-IV0"}
OLDEST = {"3.9.1": 1, "4.3.1": METADATA_VERSION_MIN}


@pytest.mark.parametrize("trial", TRIALS, ids=lambda trial: trial["trial"])
def test_a_broker_starts_when_it_knows_the_level(trial):
    release = trial["format_release_version"]
    if release == "(default)":
        release = NEWEST[trial["controllers"]]
    level = metadata_version_level(release)
    newest = metadata_version_level(NEWEST[trial["broker"]])
    assert level is not None
    assert newest is not None
    knows = OLDEST[trial["broker"]] <= level <= newest
    assert knows == trial["broker_started"], f"{release} is level {level}"


def test_both_outcomes_are_among_the_trials():
    assert {trial["broker_started"] for trial in TRIALS} == {True, False}
    assert len(TRIALS) == 10
