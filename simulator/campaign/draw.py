"""Draws of a seed before it runs: topology, settings, faults and their strength.

Swarm testing (Groce et al., 2012): a coin turns each class of faults on or off, its strength is
drawn after that. Runs with everything on hide bugs: constant elections prevent replication.
"""

from collections.abc import Callable
from random import Random
from typing import Final

import msgspec

from simulator.faults.kinds import DAMAGES, GROUPS_KINDS, KINDS, RECORDS_KINDS, kinds_since

MINUTE_US: Final = 60_000_000
CLIENTS: Final = 3

DRAWN_BY_KIND_SINCE: Final = 4
"""First draws in which a new kind has a stream of its own name, in one of `ONE_IN` seeds."""

APART: Final[tuple[str, ...]] = (*DAMAGES, "depose_leader")
"""Faults drawn from a stream of their own, so that they shift no other fault of a seed."""

EARLIER_FAULTS: Final[tuple[str, ...]] = kinds_since(1)
"""Faults that the first draws of a seed choose from."""

USUAL_FAULTS: Final[tuple[str, ...]] = tuple(
    kind for kind in EARLIER_FAULTS if kind not in ("old_quorum_state", *APART)
)
"""Faults that are on in every second seed, each by itself."""

LATER_FAULTS: Final[tuple[str, ...]] = kinds_since(2)
"""Faults added later: each on in a quarter of the seeds, from streams of their own."""

VARIATIONS: Final[tuple[str, ...]] = ("operation_mix", "even_voters")
"""Variations of draws 5, named and left out like faults; they are settings of the whole run."""

VARIED_SINCE: Final = 5
"""Draws that added `VARIATIONS`."""

ONE_IN: Final = 12

FAULT_CLASSES: Final[tuple[str, ...]] = tuple(
    name for name, kind in KINDS.items() if kind.since is not None
)
"""Faults for the nemesis; `--faults` takes these names, those of `VARIATIONS`, `all`, `none`."""

OWN_STREAM_FAULTS: Final[tuple[str, ...]] = tuple(
    kind for kind in FAULT_CLASSES if (KINDS[kind].since or 0) >= DRAWN_BY_KIND_SINCE
)
"""Faults with a stream of their own name."""

FSYNC_LIE: Final = "fsync_lie"
"""Never drawn, only named, alone: no protocol survives it, so the run has to fail."""

FAULT_NAMES: Final[tuple[str, ...]] = tuple(KINDS)
"""All kinds that a plan may hold."""

NAMES: Final[tuple[str, ...]] = (*FAULT_CLASSES, *VARIATIONS, FSYNC_LIE)
"""All names that `Options.faults` may hold."""

RECORDS_FAULTS: Final = (
    "kill", "power_failure", "pause", "partition", "one_way", "clog", "reset",
    "crash_at_operation", "all_down", "terminate", "slow_disk", "clock_jump", "depose_leader",
    "swizzle", "lost_messages", "full_link", "restart_storm", "crash_at_start",
    "kill_at_operation", "uneven_links", *RECORDS_KINDS,
)  # fmt: skip
"""Faults of clusters with records."""

GROUPS_FAULTS: Final = (*RECORDS_FAULTS, *GROUPS_KINDS)
"""Faults of clusters with groups."""

NEWEST_DRAWS: Final = 10
"""1: without later additions, so that a seed of campaign/seeds.txt means what it meant.
2: with the later faults. 3: clients look up, write a config, choose by the answers they got.
4: with lost messages, full links, failed writes, restart storms, crashes of a start; a seed that
gets none of them is what it is in 3.
5: with five kinds more and `VARIATIONS`; a seed that gets none of them is what it is in 4.
6: nodes hand bodies over in memory, but for one of `WIRE_ONE_IN` seeds; the same faults as in 5.
7: half of the seeds with turns have disks that are quick also after something was sent; the others
are what they are in 6.
8: with voters that lose their disks; a seed that gets none of it is what it is in 7.
9: with transfers of the leadership; a seed that gets none is what it is in 8.
10: with stop_leader; lookups are linearizable reads in one of `READS_ONE_IN` seeds. The others are
what they are in 9."""

READS_ONE_IN: Final = 4
"""One in so many seeds has linearizable reads."""
READING_CLIENTS: Final = 8
"""More than elsewhere: many of them wait for the leader that was stopped."""
READING_LOOKUP_PERCENT: Final = 60
READING_REGISTER_PERCENT: Final = 70
"""Shares of their operations."""

WIRE_ONE_IN: Final = 10
"""One in so many seeds has every message encoded and decoded by kio's and our codecs."""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """Choices of the caller; None leaves one to the seed."""

    node_count: int | None = None
    observer_count: int | None = None
    faults: tuple[str, ...] | None = None
    """Only these classes; the seed still chooses among them."""
    duration_us: int = MINUTE_US
    write_count: int = 200
    think_us: int | None = None
    """Mean pause of a client; None: so that the writes fill the duration. Shrinking keeps it."""

    partition_count: int = 2
    """Partitions of every topic that is created."""

    draws: int = NEWEST_DRAWS
    """Version of the draws; see `NEWEST_DRAWS`."""

    has_linearizable_reads: bool = False
    """Lookups are linearizable reads in every seed, whatever it draws."""

    has_records: bool = False
    """Brokers keep records, which clients produce and consume (simulator/records/run.py)."""

    has_transactions: bool = False
    """Of runs with records: clients with transactional ids too (simulator/records/transactions)."""
    has_groups: bool = False
    """Consumers in groups too (simulator/groups); only with records."""


STANDARD: Final = Options()
SHORT: Final = Options(duration_us=10_000_000, write_count=30)
RECORDS_STANDARD: Final = Options(has_records=True, duration_us=15_000_000, write_count=10)
RECORDS_SHORT: Final = Options(has_records=True, duration_us=5_000_000, write_count=4)


def decided(seed: int, options: Options) -> Options:
    """Options of a seed: with records every second pair has three nodes with both roles."""
    if not options.has_records:
        return options
    if options.node_count is None and options.observer_count is None and seed % 4 < 2:
        options = msgspec.structs.replace(options, node_count=3, observer_count=0)
    faults = options.faults
    if faults is None:
        faults = GROUPS_FAULTS if options.has_groups else RECORDS_FAULTS
    return msgspec.structs.replace(options, faults=faults)


class Until(msgspec.Struct, frozen=True, kw_only=True):
    """Early end of a run; None = not by that."""

    event: int | None = None
    time_us: int | None = None


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that makes a run beside its random streams."""

    seed: int
    voter_count: int
    observer_count: int
    is_combined: bool
    """Voters are brokers too; else there is at least one broker beside them."""
    duration_us: int
    write_count: int
    faults: tuple[str, ...]
    fault_interval_us: int
    """Mean time between two faults."""
    fault_length_us: int
    """Mean length of a fault that ends by itself."""
    delay_us: int
    """Shortest delay of a byte between two nodes."""
    delay_mean_us: int
    """Mean of the exponential delay on top."""
    flush_us: int
    flush_mean_us: int
    election_timeout_ms: int
    fetch_timeout_ms: int
    fetch_bytes_max: int
    segment_bytes: int
    record_bytes_between_snapshots: int
    retention_bytes: int
    session_timeout_ms: int
    clock_rate_ppm_max: int
    """Largest error of the rate of a node's clock, either way."""
    think_us: int
    """Mean pause of a client between two operations."""
    fetch_snapshot_bytes_max: int
    request_timeout_ms: int
    flush_reported_late_us: int
    """Mean time between the end of a flush and its event; 0 = at once."""
    begin_epoch_late_us: int
    """Mean extra delay of a connection's bytes from a BeginQuorumEpoch on; 0 = none."""
    partition_count: int
    has_extreme_timeouts: bool = False
    """Draws of raft are the first or the last of their ranges (simulator/faults/buggify.py)."""
    loses_first_vote: bool = False
    """The first response to a candidate is lost in every epoch."""
    asks_minimal_quorum: bool = False
    """Votes and BeginQuorumEpoch go to no more nodes than a majority needs."""
    turn_us: int = 0
    """Mean time for which events wait to be taken together (event_loop.py); 0 = each alone."""
    apply_stall_us: int = 0
    """Mean time that the second half of a step takes now and then; 0 = none."""
    has_quick_disks: bool = False
    """A flush may be quick at any time; else only where nothing was sent before it."""
    has_lookups: bool = False
    """Clients look up and choose by what they know (simulator/cluster/client_choices.py)."""
    client_count: int = CLIENTS
    lookup_percent: int = 35
    """Share of lookups in the operations of clients, if they look up."""
    register_percent: int = 20
    """Share of operations on the config of one topic."""
    against_percent: int = 8
    """Share of writes to topics that will be refused if the topics are as the answers say."""
    has_linearizable_reads: bool = False
    """Lookups are linearizable reads (simulator/cluster/linearizable_reads.py)."""
    hands_over: bool = False
    """Bodies between nodes stay in memory (simulator/cluster/hand_over.py)."""
    has_groups: bool = False

    @property
    def has_event_loops(self) -> bool:
        """True if the steps of machines are taken in two halves (event_loop.py)."""
        return self.turn_us > 0 or self.apply_stall_us > 0


def draw_settings(seed: int, rng: Random, rare: Random, options: Options) -> Settings:
    """Draw the settings of a seed.

    Args:
        seed: kept in the settings.
        rng: draws what every seed has.
        rare: draws what a quarter of the seeds has; apart, so that one more changes no other.
        options: choices of the caller.
    """
    allowed: tuple[str, ...] = EARLIER_FAULTS if options.faults is None else options.faults
    on = tuple(name for name in USUAL_FAULTS if rng.random() < 0.5 and name in allowed)
    if len(allowed) == 1 or not set(allowed) & set(USUAL_FAULTS):
        on = allowed
    is_combined = rng.random() < 0.5
    observers = rng.choice((0, 0, 1, 2)) if is_combined else rng.choice((1, 1, 2, 3))
    voters = rng.choice((1, 3, 3, 3, 5, 5, 5))
    has_small_files = rng.random() < 0.3
    has_snapshots = rng.random() < 0.5
    fetch_timeout_ms = rng.choice((500, 1_000, 2_000, 3_000))
    seldom = [draw_rare(rare, *values) for values in RARE]
    if rare.random() < 0.25:
        on += tuple(n for n in EARLIER_FAULTS if n not in (*USUAL_FAULTS, *on) and n in allowed)
    sites = [rare.random() < 0.25 for _ in range(3)]  # drawn last: what is above stays as it was
    return Settings(
        seed=seed,
        voter_count=voters if options.node_count is None else options.node_count,
        observer_count=observers if options.observer_count is None else options.observer_count,
        is_combined=is_combined or options.observer_count == 0,
        duration_us=options.duration_us,
        write_count=options.write_count,
        faults=on,
        fault_interval_us=rng.choice((500_000, 1_500_000, 4_000_000)),
        fault_length_us=rng.choice((200_000, 1_000_000, 4_000_000)),
        delay_us=rng.choice((50, 200, 2_000)),
        delay_mean_us=rng.choice((50, 500, 20_000)),
        flush_us=rng.choice((20, 100, 1_000)),
        flush_mean_us=rng.choice((50, 200, 10_000)),
        election_timeout_ms=rng.choice((200, 500, 1_000)),
        fetch_timeout_ms=fetch_timeout_ms,
        fetch_bytes_max=rng.choice((1, 2_000, 1 << 20, 1 << 20)),
        segment_bytes=rng.choice((2_000, 20_000)) if has_small_files else 1 << 30,
        record_bytes_between_snapshots=rng.choice((1_000, 5_000)) if has_snapshots else 1 << 40,
        retention_bytes=rng.choice((3_000, 20_000)) if has_snapshots else 1 << 40,
        session_timeout_ms=rng.choice((1_500, 4_000, 9_000)),
        clock_rate_ppm_max=rng.choice((0, 0, 1_000, 200_000)),
        think_us=options.think_us or think_us(options),
        fetch_snapshot_bytes_max=seldom[0],
        request_timeout_ms=seldom[1],
        flush_reported_late_us=seldom[2],
        begin_epoch_late_us=seldom[3],
        partition_count=options.partition_count,
        has_extreme_timeouts=sites[0],
        loses_first_vote=sites[1],
        asks_minimal_quorum=sites[2],
    )


def add_later(settings: Settings, rng: Random, sites: Random, options: Options) -> Settings:
    """Add the later draws; every choice is drawn, then kept where it is allowed.

    Args:
        settings: by `draw_settings`.
        rng: chooses faults.
        sites: chooses legal but unlikely behaviour.
        options: choices of the caller.
    """
    if options.draws < 2:
        return settings
    drawn = [name for name in LATER_FAULTS if rng.random() < 0.25]
    allowed = LATER_FAULTS if options.faults is None else options.faults
    more = tuple(n for n in drawn if n in allowed and n not in settings.faults)
    return msgspec.structs.replace(
        settings,
        faults=settings.faults + more,
        turn_us=draw_rare(sites, 0, 50, 2_000),
        apply_stall_us=draw_rare(sites, 0, 10_000, 100_000),
        has_lookups=options.draws >= 3,
        think_us=settings.think_us * THINK_PERCENT // 100
        if options.draws >= 3 and options.think_us is None
        else settings.think_us,
    )


def add_by_kind(settings: Settings, stream: Callable[[str], Random], options: Options) -> Settings:
    """Add faults and variations with a stream of their own; a seed without any is as before.

    Args:
        settings: by `add_later`.
        stream: the random stream of a name; that of a fault decides if it is on, and later
            its plan; that of a variation decides its values too.
        options: choices of the caller.
    """
    names = tuple(kind for kind in OWN_STREAM_FAULTS if (KINDS[kind].since or 0) <= options.draws)
    if options.draws >= VARIED_SINCE:
        names += VARIATIONS
    allowed = names if options.faults is None else options.faults
    drawn = [name for name in names if stream(name).randrange(ONE_IN) == 0]
    more = tuple(n for n in drawn if n in allowed and n not in settings.faults)
    settings = msgspec.structs.replace(settings, faults=settings.faults + more)
    if "operation_mix" in settings.faults:
        settings = _with_another_mix(settings, stream("operation_mix"), options)
    if "even_voters" in settings.faults and options.node_count is None:
        count = stream("even_voters").choice((2, 4))
        settings = msgspec.structs.replace(settings, voter_count=count)
    return settings


def add_hand_over(
    settings: Settings, stream: Callable[[str], Random], options: Options
) -> Settings:
    """Draw whether bodies between nodes stay in memory; all else is as in draws 5."""
    if options.draws < 6 or options.has_records:
        return settings
    hands_over = stream("wire").randrange(WIRE_ONE_IN) != 0
    return msgspec.structs.replace(settings, hands_over=hands_over)


def add_quick_disks(
    settings: Settings, stream: Callable[[str], Random], options: Options
) -> Settings:
    """Draw whether disks are quick after something was sent too; all else is as in draws 6."""
    if options.draws < 7 or not settings.has_event_loops:
        return settings
    is_quick = stream("quick_disks").randrange(2) == 0
    return msgspec.structs.replace(settings, has_quick_disks=is_quick)


def add_reads(settings: Settings, stream: Callable[[str], Random], options: Options) -> Settings:
    """Draw whether lookups are linearizable reads; then leaders are stopped.

    Most operations are on one config: a stale read shows where the same thing was just written.
    """
    if not settings.has_lookups or options.has_records:
        return settings
    is_drawn = options.draws >= 10 and stream("linearizable_reads").randrange(READS_ONE_IN) == 0
    has_reads = is_drawn or options.has_linearizable_reads
    allowed = FAULT_CLASSES if options.faults is None else options.faults
    if not has_reads:
        return settings
    is_more = "stop_leader" not in settings.faults and "stop_leader" in allowed
    faults = settings.faults + ("stop_leader",) * is_more
    settings = msgspec.structs.replace(settings, faults=faults, has_linearizable_reads=True)
    if "operation_mix" in faults:
        return settings
    return msgspec.structs.replace(
        settings,
        client_count=READING_CLIENTS,
        lookup_percent=READING_LOOKUP_PERCENT,
        register_percent=READING_REGISTER_PERCENT,
    )


def add_chores(settings: Settings, stream: Callable[[str], Random], options: Options) -> Settings:
    """Draw what administrators do in a run with records; each kind in every second seed."""
    if not options.has_records:
        return settings
    allowed = options.faults or ()
    kinds = (*RECORDS_KINDS, *(GROUPS_KINDS if options.has_groups else ()))
    drawn = [kind for kind in kinds if stream(f"chores/{kind}").random() < 0.5]
    more = tuple(kind for kind in drawn if kind in allowed and kind not in settings.faults)
    faults = settings.faults + more
    return msgspec.structs.replace(settings, faults=faults, has_groups=options.has_groups)


def _with_another_mix(settings: Settings, rng: Random, options: Options) -> Settings:
    """Draw more or fewer clients, together as busy as ever, and other shares of operations."""
    count = rng.choice((2, 4, 5, 6))
    think_us = settings.think_us
    return msgspec.structs.replace(
        settings,
        client_count=count,
        think_us=think_us * count // CLIENTS if options.think_us is None else think_us,
        lookup_percent=rng.choice((0, 10, 35, 60, 85)),
        register_percent=rng.choice((0, 20, 50, 90)),
        against_percent=rng.choice((0, 8, 30, 60)),
    )


RARE: Final = (
    (1 << 20, 100, 700),
    (2_000, 300, 6_000),
    (0, 2_000, 30_000),
    (0, 50_000, 1_000_000),
)
"""The four settings drawn by `rare`: the usual value, then those of a quarter of the seeds."""


def draw_rare(rng: Random, usual: int, *seldom: int) -> int:
    """Draw the usual value in three of four cases."""
    chance, value = rng.random(), rng.choice(seldom)
    return value if chance < 0.25 else usual


THINK_PERCENT: Final = 75
"""Percent of `think_us`, where time-outs and lookups take the rest of the time."""


def think_us(options: Options) -> int:
    """Mean pause of a client so that all of them together fill the duration with the writes."""
    return max(1_000, options.duration_us * CLIENTS // max(1, options.write_count))
