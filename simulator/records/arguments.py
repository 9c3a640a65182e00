"""Command line of `kraftline sim records`, without what it runs."""

from typing import Final

from simulator.campaign.arguments import Parser, seed, seed_range

SEEDS: Final = range(1, 51)


def records_parser() -> Parser:
    """Make the parser."""
    parser = Parser(
        "kraftline sim records",
        allow_abbrev=False,
        description="Run clusters whose brokers keep records, with producers and consumers.",
        epilog="Exit code: 0 all held, 10 safety, 11 liveness, 12 crash, 13 nondeterminism, "
        "2 bad input; of several failures the first one decides.",
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--seeds", type=seed_range, default=SEEDS, metavar="A..B",
        help="from A to B, both included (1..50)")  # fmt: skip
    which.add_argument("--seed", type=seed, metavar="N", help="only this one")
    parser.add_argument("--twice", action="store_true", help="run each twice, compare the digests")
    parser.add_argument("--trace", action="store_true", help="print what happens, a line each")
    parser.add_argument("--quiet", action="store_true", help="no faults")
    return parser
