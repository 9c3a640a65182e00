"""Events of the members of a group, made by hand: each finding beside the same without it."""

from pathlib import Path

import pytest

from jepsen.groups.checker import check_groups
from jepsen.groups.names import PROTOCOLS, SESSION_MS
from jepsen.history import Recorder
from jepsen.linearizability import Event, History, HistoryError

CLASSIC, CONSUMER = "readers-range", "readers-848"
LOG = "log-a-0"
SECOND = 1_000_000_000


def checked(events):
    """Check and evidence; the page goes nowhere."""
    return check_groups(History(events), Path("/dev/null"))


class Made:
    """Events of members; times are in seconds."""

    def __init__(self, group=CLASSIC):
        self.group = group
        self.events = []

    def tell(self, member, f, at, **what):
        value = {"group": self.group, "at": int(at * SECOND), **what}
        if "began" in value:
            value["began"] = int(what["began"] * SECOND)
        name = f"{self.group}/{member}" if isinstance(member, int) else member
        self.events.append(Event(process=name, type="info", f=f, value=value))

    def read(self, member, at, *offsets, values=None):
        rows = [[each, value] for each, value in zip(offsets, values or offsets, strict=True)]
        self.tell(member, "read", at, records={LOG: rows})

    def commit(self, member, at, offset, *, is_allowed=True):
        """Asked for at a time, answered half a second later."""
        self.tell(member, "committing", at, offsets={LOG: offset})
        f = "committed" if is_allowed else "refused"
        self.tell(member, f, at + 0.5, began=at, offsets={LOG: offset})

    def fetched(self, member, began, offset):
        self.tell(member, "fetched", began + 0.5, began=began, offsets={LOG: offset})

    def owns(self, member, f, at, generation=1):
        self.tell(member, f, at, partitions=[LOG], generation=generation)

    def holds(self, *values, **extra):
        """A final read of the partition."""
        key = {"key": LOG, "node": 1}
        self.events.append(Event(process=0, type="invoke", f="read", extra=key))
        self.events.append(
            Event(process=0, type="ok", f="read", value=list(values), extra={**key, **extra})
        )

    def kinds(self):
        found = checked(self.events)[1]["group_findings"]
        return [finding["kind"] for finding in found]


# ---- records and offsets -------------------------------------------------------------------------


def test_what_is_read_may_be_committed():
    made = Made()
    made.read(0, 1, 0, 1)
    made.commit(0, 2, 2)
    made.read(1, 3, 2)
    made.commit(1, 4, 3)
    made.holds(0, 1, 2, 3)
    assert made.kinds() == []


@pytest.mark.parametrize("is_allowed", [True, False])
def test_skipped(is_allowed):
    made = Made()
    made.read(0, 1, 0, 2)
    made.commit(0, 2, 3, is_allowed=is_allowed)
    made.holds(0, 1, 2)
    assert made.kinds() == ["skipped"]


def test_skipped_by_one_that_died_before_the_answer():
    made = Made()
    made.read(0, 1, 1)
    made.tell(0, "committing", 2, offsets={LOG: 2})
    made.holds(0, 1)
    assert made.kinds() == ["skipped"]


def test_an_offset_that_nobody_committed_skips_nothing():
    made = Made()
    made.fetched(0, 1, None)
    made.commit(0, 2, 0)
    made.fetched(0, 3, 0)
    made.holds(0)
    assert made.kinds() == []


def test_skipped_is_told_once_and_gaps_are_no_records():
    made = Made()
    made.read(0, 1, 0, 2)
    made.commit(0, 2, 3)
    made.commit(0, 3, 3)
    made.holds(0, 2, offsets=[0, 2])
    assert made.kinds() == []
    made.events = made.events[:-2]
    made.holds(0, 1, 2)
    assert made.kinds() == ["skipped"]


def test_skipped_by_whoever_commits_first():
    """A record that another member of the group reads later comes too late."""
    made = Made()
    made.read(0, 3, 0)
    made.read(1, 1, 1)
    made.commit(1, 2, 2)
    made.holds(0, 1)
    assert made.kinds() == ["skipped"]
    good = Made()
    good.read(0, 1.5, 0)
    good.read(1, 1, 1)
    good.commit(1, 2, 2)
    good.holds(0, 1)
    assert good.kinds() == []


def test_skipped_at_the_end():
    made = Made()
    made.commit(0, 1, 1)
    made.tell(CLASSIC, "caught up", 9, offsets={LOG: 1}, ends={LOG: 1})
    assert made.kinds() == [], "nobody read the partition at the end"
    made.holds(7)
    assert made.kinds() == ["skipped"]


def test_groups_read_each_for_itself():
    made = Made()
    made.read(0, 1, 0)
    made.group = CONSUMER
    made.commit(0, 2, 1)
    made.holds(0)
    assert made.kinds() == ["skipped"]


def test_went_back():
    made = Made()
    made.read(0, 0, 0, 1)
    made.commit(0, 1, 1)
    made.commit(0, 2, 2)
    made.fetched(1, 3, 2)
    assert made.kinds() == []
    made.fetched(1, 4, 1)
    assert made.kinds() == ["went back"]


def test_went_back_to_none():
    made = Made()
    made.fetched(1, 0, None)
    made.commit(0, 1, 1)
    made.fetched(1, 1.25, None)
    assert made.kinds() == [], "it was asked before the commit was acknowledged"
    made.fetched(1, 2, None)
    assert made.kinds() == ["went back"]


def test_went_back_at_the_end():
    made = Made()
    made.commit(0, 1, 1)
    made.commit(0, 2, 2)
    made.tell(CLASSIC, "caught up", 9, offsets={LOG: 1}, ends={LOG: 1})
    assert made.kinds() == ["went back"]


def test_a_refused_commit_promises_nothing():
    made = Made()
    made.commit(0, 1, 1, is_allowed=False)
    made.fetched(1, 3, None)
    made.fetched(1, 4, 1)
    assert made.kinds() == [], "though it may be there"


def test_committed_back():
    made = Made()
    made.commit(0, 1, 5)
    made.commit(1, 2, 5)
    made.commit(1, 3, 4, is_allowed=False)
    assert made.kinds() == []
    made.commit(1, 4, 4)
    assert made.kinds() == ["committed back"]
    concurrent = Made()
    concurrent.commit(0, 1, 5)
    concurrent.commit(1, 1.25, 4)
    assert concurrent.kinds() == []


def test_the_floor_is_the_greatest_offset():
    made = Made()
    made.commit(0, 1, 5)
    made.commit(1, 1.25, 4)
    made.fetched(1, 3, 4)
    assert made.kinds() == ["went back"]


def test_made_up():
    made = Made()
    made.commit(0, 1, 1)
    made.fetched(1, 2, 3)
    assert made.kinds() == ["made up"]


def test_wrong_record():
    made = Made()
    made.read(0, 1, 0, 1, values=[7, 8])
    assert made.kinds() == []
    made.holds(7, 8)
    assert made.kinds() == []
    made.read(0, 2, 0, 1, values=[7, 9])
    assert made.kinds() == ["wrong record"]


def test_behind():
    made = Made()
    made.commit(0, 1, 3)
    made.tell(CLASSIC, "behind", 9, offsets={LOG: 3}, ends={LOG: 5})
    found = checked(made.events)[1]["group_findings"]
    assert [each["text"] for each in found] == [f"{CLASSIC}: at the end {LOG}: 3 of 5"]
    silent = Made()
    silent.tell(CLASSIC, "behind", 9, offsets={}, ends={})
    assert silent.kinds() == ["behind"]


# ---- owners --------------------------------------------------------------------------------------


def handed_over(group=CLASSIC, end="revoked", at=5):
    made = Made(group)
    made.owns(0, "assigned", 1)
    made.owns(0, end, at)
    made.owns(1, "assigned", 6, generation=2)
    return made


@pytest.mark.parametrize("end", ["revoked", "lost"])
def test_handed_over(end):
    made = handed_over(end=end)
    made.commit(0, 4.75, 1)
    assert made.kinds() == []


@pytest.mark.parametrize("end", ["left", "killed"])
def test_the_end_of_a_member_gives_up_everything(end):
    made = Made()
    made.owns(0, "assigned", 1)
    made.commit(0, 4, 1)
    made.tell(0, end, 5)
    made.owns(1, "assigned", 6, generation=2)
    assert made.kinds() == []
    made.events = [event for event in made.events if event.f != end]
    assert made.kinds() == ["two owners"], "less than a session after the commit"


def test_one_generation():
    made = Made()
    made.owns(0, "assigned", 1)
    made.owns(0, "revoked", 2)
    made.owns(1, "assigned", 3)
    assert made.kinds() == ["two owners"]
    again = Made()
    again.owns(0, "assigned", 1)
    again.owns(0, "revoked", 2)
    again.owns(0, "assigned", 3)
    assert again.kinds() == [], "the same member"
    newer = Made(CONSUMER)
    newer.owns(0, "assigned", 1)
    newer.owns(0, "revoked", 2)
    newer.owns(1, "assigned", 3)
    assert newer.kinds() == [], "an epoch is told late"
    unknown = Made()
    unknown.owns(0, "assigned", 1, generation=None)
    unknown.owns(0, "revoked", 2, generation=None)
    unknown.owns(1, "assigned", 3, generation=None)
    assert unknown.kinds() == []


@pytest.mark.parametrize("group", [CLASSIC, CONSUMER])
def test_a_commit_that_is_allowed_after_another_owns(group):
    made = handed_over(group, at=9)
    made.commit(0, 7, 1, is_allowed=False)
    assert made.kinds() == []
    made.commit(0, 8, 1)
    assert made.kinds() == ["two owners"]


def test_times_that_are_equal_are_in_favour_of_the_nodes():
    at_once = handed_over(at=6)
    at_once.commit(0, 5.5, 1)
    assert at_once.kinds() == []
    begun = handed_over(CONSUMER, at=9)
    begun.commit(0, 6, 1)
    assert begun.kinds() == [], "the second had it from then on"
    late = handed_over(CONSUMER, at=8)
    late.commit(0, 8, 1)
    assert late.kinds() == [], "the first had it no longer"


def test_a_commit_at_the_first_moment_is_a_proof():
    made = handed_over(at=9)
    made.commit(0, 1, 1)
    assert made.kinds() == ["two owners"]


def test_a_commit_after_the_second_gave_it_up_proves_nothing():
    made = handed_over(CONSUMER, at=20)
    made.owns(1, "revoked", 7)
    made.commit(0, 8, 1)
    assert made.kinds() == []


@pytest.mark.parametrize(
    ("group", "before_s", "found"),
    [
        (CLASSIC, SESSION_MS / 1000 - 0.1, ["two owners"]),
        (CLASSIC, SESSION_MS / 1000, []),
        (CONSUMER, 0.1, []),
    ],
)
def test_a_member_is_not_expired_before_its_session_ends(group, before_s, found):
    made = Made(group)
    made.owns(0, "assigned", 1)
    made.commit(0, 20 - before_s, 1)
    made.owns(1, "assigned", 20, generation=2)
    made.owns(0, "lost", 30)
    assert made.kinds() == found


def test_a_commit_of_an_earlier_time_as_owner_proves_nothing():
    made = Made()
    made.owns(0, "assigned", 1)
    made.commit(0, 4, 1)
    made.owns(0, "revoked", 5)
    made.owns(0, "assigned", 6, generation=2)
    made.owns(1, "assigned", 7, generation=3)
    assert made.kinds() == []


# ---- verdicts ------------------------------------------------------------------------------------


def worked(group):
    made = Made(group)
    made.tell(0, "started", 0)
    made.owns(0, "assigned", 1)
    made.owns(0, "revoked", 2)
    made.owns(0, "assigned", 3, generation=2)
    made.read(0, 4, 0)
    made.read(0, 4.5, 0, values=[0])
    made.commit(0, 5, 1)
    made.tell(group, "caught up", 9, offsets={LOG: 1}, ends={LOG: 1})
    return made.events


def test_every_group_has_to_work():
    events = [event for group in PROTOCOLS for event in worked(group)]
    check, evidence = checked(events)
    assert (check.name, check.verdict) == ("groups", "valid")
    counts = evidence["groups"][CLASSIC]
    assert (counts["members"], counts["assignments"], counts["commits"]) == (1, 2, 1)
    assert (counts["read"], counts["read again"]) == (1, 1)
    for f in ("assigned", "committed", "caught up"):
        (last,) = [event for event in events if event.f == f][-1:]
        check, _ = checked([event for event in events if event is not last])
        assert (check.verdict, CONSUMER in check.reason) == ("unknown", True)
    assert checked([])[0].verdict == "unknown"


def test_findings_are_counted():
    made = Made()
    made.commit(0, 1, 1)
    made.fetched(1, 2, 3)
    made.fetched(1, 3, 4)
    check, _ = checked(made.events)
    assert check.verdict == "invalid"
    assert check.reason.startswith("2 made up; findings.html cannot be written: Not a dir")
    assert f"; first: {CLASSIC}: {CLASSIC}/1 is given offset 3" in check.reason


def test_events_of_another_shape_are_refused():
    made = Made()
    made.tell(0, "read", 1, records={LOG: 7})
    with pytest.raises(HistoryError, match="history:1: read: Expected"):
        made.kinds()


def test_notes_are_no_operations(tmp_path):
    recorder = Recorder(tmp_path)
    before = recorder.now_ns()
    recorder.note("a/1", "left", {"group": "a", "at": 1})
    (event,) = recorder.history().events
    assert (event.process, event.type, event.f) == ("a/1", "info", "left")
    assert before <= event.time <= recorder.now_ns()
    assert recorder.history().operations == ()
    recorder.close()
