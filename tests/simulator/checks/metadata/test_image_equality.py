"""Equality of images, with and without an older pair that was equal."""

from immutables import Map
from msgspec.structs import replace

from metadata.image import EMPTY
from simulator.checks.metadata.image_equality import image_difference


def test_a_field_that_changed_on_one_side_since_an_equal_pair_is_found() -> None:
    mine = replace(EMPTY, features=Map({"metadata.version": 20}))
    theirs = replace(EMPTY, features=Map({"metadata.version": 20}))
    assert image_difference(mine, theirs) is None

    later = replace(mine, features=Map({"metadata.version": 21}), producer_ids=1000)
    for one, other in ((later, theirs), (theirs, later)):
        equal = (mine, theirs) if one is later else (theirs, mine)
        assert image_difference(one, other, equal) == "features"
        assert image_difference(one, other) == "features"


def test_a_field_that_both_sides_kept_is_not_compared_again() -> None:
    """Values are immutable; a pair that never was equal shows that nobody looks."""
    mine = replace(EMPTY, features=Map({"metadata.version": 20}))
    theirs = replace(EMPTY, features=Map({"metadata.version": 21}))
    assert image_difference(mine, theirs) == "features"
    assert image_difference(mine, replace(theirs, producer_ids=0), (mine, theirs)) == "producer_ids"
