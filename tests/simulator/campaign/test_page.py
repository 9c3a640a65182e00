"""The page of a run knows every fault that there is."""

import re

import pytest
from msgspec.structs import replace

from simulator.campaign.draw import FAULT_NAMES, SHORT, Until
from simulator.campaign.page import _violator, data_of, page_of
from simulator.campaign.recording import Recording
from simulator.campaign.run import run_seed
from simulator.faults.kinds import GROUPS_KINDS, KINDS, RECORDS_KINDS


def test_every_fault_has_a_colour_of_its_own() -> None:
    more = RECORDS_KINDS | GROUPS_KINDS
    colours = [*(kind.colour for kind in KINDS.values()), *more.values()]
    assert len(set(colours)) == len(colours)
    assert all(re.fullmatch("#[0-9a-f]{6}", colour) for colour in colours)


def test_the_page_is_given_the_colours() -> None:
    recording = Recording()
    outcome = run_seed(1, SHORT, recording=recording, until=Until(event=20))
    found = data_of(outcome, recording)["faultColours"]
    more = RECORDS_KINDS | GROUPS_KINDS
    assert found == {kind: KINDS[kind].colour for kind in FAULT_NAMES} | more


@pytest.mark.parametrize(
    ("text", "violator"),
    [
        ("node 2: it leads twice", 2),
        ("a record that node 3 lacks, and node 1 has", 3),
        ("each node of them, node 1", 1),
        ("node 9: no lane of the page", None),
        ("node ", None),
        ("an operation is lost", None),
        ("2: no node", None),
        ("snode 2", None),
    ],
)
def test_the_violator_is_the_first_node_that_the_text_names(text, violator) -> None:
    assert _violator(text, [1, 2, 3]) == violator


def test_what_is_put_in_stays_as_it_is() -> None:
    recording = Recording()
    outcome = run_seed(1, SHORT, recording=recording, until=Until(event=20))
    failed = replace(outcome, invariant="I1", text="a topic @DATA@ <b>", is_complete=True)
    page = page_of(failed, recording, "@SEED@", "kraftline sim")
    assert "a topic @DATA@ &lt;b&gt;" in page
    assert page.count("@SEED@") == 1
