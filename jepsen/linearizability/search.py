"""Wing & Gong's search with Lowe's memory of visited configurations, for one partition.

Is there an order of the operations that respects real time (what returned strictly before another
was called comes first) and is legal for the model? The search linearizes operations one by one.
An operation may come next if it was called before the first *return* whose operation is not yet
linearized; when no such operation is legal, the last choice is taken back.

Representation (no objects in the loop, all ints):

- Calls are numbered 1..n in time order; `following`/`preceding` link those not yet linearized
  (0 is the head, n + 1 the end; calls that change no state have a list of their own, see below).
  Linearizing unlinks a call, taking back links it in again, in exactly the opposite order, so that
  the arrays are as they were.
- Returns are numbered 0.. in time order. `calls_before[k]` is the last call before return k: on
  equal times calls come before returns, since intervals are closed.
- A configuration is (first pending return, which open operations are linearized, state). What
  returned before the first pending return is linearized, what is called after it is not, so bits
  are needed only for the operations open there: the *window*. An operation takes the lowest free
  slot of the window at its call and gives it back at its return. One int holds all three:

      | first pending return | state | slots of the window | 1 |

  the last bit is always set (see `needs`).
- An operation that never returned keeps its slot to the end. The search has succeeded when no
  return is pending: such operations need not be linearized at all.

Sound shortcuts (`prune`; each proof is an exchange of neighbours in a legal order):

- A legal operation that changes no state (a read) is linearized before anything else is tried;
  if that fails, so does every other choice at this configuration.
- A never returned operation that would change nothing here is not tried.
- Of never returned operations of one kind the earlier called goes first (`needs`: the slot of
  the one before it, which must be linearized).

References: Wing & Gong, JPDC 1993; Lowe, "Testing for linearizability", 2017.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from jepsen.linearizability.transitions import Row, Transitions

BLOCK_STEPS: Final = 1 << 14
"""Steps between two checks of the budgets: cache and clock may be exceeded by so many."""


class Entry(NamedTuple):
    """An operation for the search: times, and the kind in the table of transitions."""

    call: int
    end: int | None
    kind: int
    is_observation: bool


class Plan(NamedTuple):
    """Arrays of the module's head; call 0 is the head of the list."""

    order: tuple[int, ...]  # call number - 1 -> index of the entry given
    kinds: list[int]  # by call
    bits: list[int]  # by call: its slot in the window
    needs: list[int]  # by call: 0 if it returns, else the bits of which one must be set
    forced: list[bool]  # by call: an observation
    return_bits: list[int]  # by return, and one 0 at the end
    return_calls: list[int]  # by return: its call
    calls_before: list[int]  # by return, and one -1 at the end
    width: int  # slots of the window, the constant bit included


def plan_of(entries: Sequence[Entry], *, prune: bool = True) -> Plan:
    """Number calls, returns and slots.

    Args:
        entries: In any order.
        prune: Use the shortcuts of the module's head.
    """
    marks = sorted(
        [(entry.call, 0, number) for number, entry in enumerate(entries)]
        + [(entry.end, 1, number) for number, entry in enumerate(entries) if entry.end is not None]
    )
    plan = Plan((), [0], [0], [0], [False], [], [], [], 0)
    order: list[int] = []
    call_of: dict[int, int] = {}
    last_of_kind: dict[int, int] = {}
    free, width = -2, 1  # all slots but the constant one
    for _, is_return, number in marks:
        entry = entries[number]
        if is_return:
            call = call_of[number]
            plan.return_bits.append(plan.bits[call])
            plan.return_calls.append(call)
            plan.calls_before.append(len(order))
            free |= plan.bits[call]
            continue
        order.append(number)
        call_of[number] = len(order)
        bit = free & -free
        free ^= bit
        width = max(width, bit.bit_length())
        plan.kinds.append(entry.kind)
        plan.bits.append(bit)
        plan.forced.append(prune and entry.is_observation and entry.end is not None)
        crashed = prune and entry.end is None
        plan.needs.append(last_of_kind.get(entry.kind, 1) if crashed else 0)
        if crashed:
            last_of_kind[entry.kind] = bit
    plan.return_bits.append(0)
    plan.calls_before.append(-1)
    return plan._replace(order=tuple(order), width=width)


def _linked(forced: Sequence[bool]) -> tuple[list[int], list[int], int]:
    """Make two lists in one pair of arrays, in order of calls and with one common end.

    Head 0 is that of the calls that may change the state, the head returned that of the forced.
    """
    tail = len(forced)
    observations = tail + 1
    following = [tail] * (tail + 2)
    preceding = [0] * (tail + 2)
    last = {False: 0, True: observations}
    for call in range(1, tail):
        before = last[forced[call]]
        following[before], preceding[call] = call, before
        last[forced[call]] = call
    return following, preceding, observations


class Search:
    """One search that can be interrupted: `advance` runs blocks of steps until it is decided."""

    def __init__(
        self,
        plan: Plan,
        table: Transitions,
        *,
        state_bits: int,
        on_dead_end: Callable[[list[int]], None] | None = None,
    ) -> None:
        """Prepare the search.

        Args:
            plan: Calls and returns.
            table: Moves; not yet begun.
            state_bits: Room for the number of a state in a cache key.
            on_dead_end: Called with the linearized calls whenever no more could be linearized.
        """
        self.plan: Final = plan
        self.table: Final = table
        self.seen: Final[set[int]] = set()
        self.return_shift: Final = plan.width + state_bits
        self.is_legal: bool | None = None
        self.steps = 0
        self._stack: Final[list[tuple[int, Row, int, int]]] = []
        self._on_dead_end: Final = on_dead_end
        self._block = BLOCK_STEPS
        self._blocks: Final = self._search()
        if not plan.return_calls:
            self.is_legal = True

    def advance(self, steps: int = BLOCK_STEPS) -> bool | None:
        """Go on for so many steps; True legal, False illegal, None not known yet."""
        self._block = steps
        if self.is_legal is None:
            next(self._blocks, None)
        return self.is_legal

    def linearization(self) -> list[int]:
        """Indexes of the entries in the order found (so far); the last is the newest."""
        return [self.plan.order[frame[0] - 1] for frame in self._stack]

    def _search(self) -> Iterator[None]:  # noqa: C901, PLR0912, PLR0915  # one loop: fast
        plan = self.plan
        _, kinds, bits, needs, forced, return_bits, return_calls, calls_before, _ = plan
        tail = len(kinds)  # behind the last call, and above every limit
        following, preceding, observations = _linked(forced)
        has_observations = following[observations] != tail
        first = observations if has_observations else 0
        seen, stack, on_dead_end = self.seen, self._stack, self._on_dead_end
        push, pop, remember = stack.append, stack.pop, seen.add
        unit, end = 1 << self.return_shift, len(return_calls)
        row: Row = self.table.begin(plan.width)
        linearized, pending = 1, 0
        observing, call = has_observations, following[first]
        limit, pending_bit = calls_before[0], return_bits[0]
        while True:
            block = self._block
            for step in range(block):
                if call <= limit:
                    moved = row[kinds[call]]
                    if moved is None:
                        call = following[call]
                        continue
                    bit, need = bits[call], needs[call]
                    if need and (moved is row or not need & linearized):
                        call = following[call]
                        continue
                    after, new = pending, linearized | bit
                    if bit == pending_bit:
                        while new & return_bits[after]:
                            new ^= return_bits[after]
                            after += 1
                        new += (after - pending) * unit
                    key = new | moved[0]
                    if key in seen:
                        observing, call = False, tail if observing else following[call]
                        continue
                    remember(key)
                    push((call, row, linearized, pending))
                    if after == end:
                        self.steps += step + 1
                        self.is_legal = True
                        return
                    before, behind = preceding[call], following[call]
                    following[before] = behind
                    preceding[behind] = before
                    if after != pending:
                        pending = after
                        limit, pending_bit = calls_before[pending], return_bits[pending]
                    row, linearized = moved, new
                    observing, call = has_observations, following[first]
                    continue
                if observing:
                    observing, call = False, following[0]
                    continue
                if on_dead_end is not None:
                    on_dead_end([frame[0] for frame in stack])
                while stack:
                    call, row, linearized, pending = pop()
                    following[preceding[call]] = call
                    preceding[following[call]] = call
                    if not forced[call]:
                        break
                else:
                    self.steps += step + 1
                    self.is_legal = False
                    return
                limit, pending_bit = calls_before[pending], return_bits[pending]
                call = following[call]
            self.steps += block
            yield
