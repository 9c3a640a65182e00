"""Random UUIDs: version 4, and a text that is no flag."""

import random
from base64 import urlsafe_b64encode
from uuid import RFC_4122, UUID

from simulator.scenarios.scripted_rng import ScriptedRng
from wire.random_ids import random_uuid


def test_version_and_variant_and_no_dash() -> None:
    rng = random.Random(1)
    for _ in range(2_000):
        found = UUID(bytes=random_uuid(rng))
        assert (found.version, found.variant) == (4, RFC_4122)
        assert not urlsafe_b64encode(found.bytes).startswith(b"-")


def test_a_draw_that_begins_with_a_dash_is_thrown_away() -> None:
    dash, other = 62 << 58, 1 << 58
    rng = ScriptedRng()
    rng.add(dash, 0, other, 0)
    assert random_uuid(rng)[0] >> 2 == 1
