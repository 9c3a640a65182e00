"""The page of a run knows every fault that there is."""

import re
from importlib import resources

from simulator.draw import FAULT_NAMES


def test_every_fault_has_a_colour_of_its_own() -> None:
    text = resources.files("simulator").joinpath("page.html").read_text(encoding="utf-8")
    block = text.partition("const FAULTS = {")[2].partition("};")[0]
    colours = dict(re.findall(r'(\w+): "(#[0-9a-f]{6})"', block))
    assert set(colours) == set(FAULT_NAMES)
    assert len(set(colours.values())) == len(colours)
