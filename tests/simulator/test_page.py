"""The page of a run knows every fault that there is."""

import re
from importlib import resources

from msgspec.structs import replace

from simulator.arguments import SHORT
from simulator.draw import FAULT_NAMES, Until
from simulator.page import page_of
from simulator.recording import Recording
from simulator.run import run_seed


def test_every_fault_has_a_colour_of_its_own() -> None:
    text = resources.files("simulator").joinpath("page.html").read_text(encoding="utf-8")
    block = text.partition("const FAULTS = {")[2].partition("};")[0]
    colours = dict(re.findall(r'(\w+): "(#[0-9a-f]{6})"', block))
    assert set(colours) == set(FAULT_NAMES)
    assert len(set(colours.values())) == len(colours)


def test_what_is_put_in_stays_as_it_is() -> None:
    recording = Recording()
    outcome = run_seed(1, SHORT, recording=recording, until=Until(event=20))
    failed = replace(outcome, invariant="I1", text="a topic @DATA@ <b>", is_complete=True)
    page = page_of(failed, recording, "@SEED@", "kraftline sim")
    assert "a topic @DATA@ &lt;b&gt;" in page
    assert page.count("@SEED@") == 1
