"""Each check of groups fails when what it checks is broken."""

import pytest
from msgspec.structs import replace

from coordinator.group.consumer.group import ConsumerGroup
from coordinator.group.consumer.member import Member
from coordinator.records.group import GroupMetadataValue
from simulator.checks.partitions.group_images import begins_anew, check_consumer_group, shards_of
from simulator.checks.partitions.groups import Acknowledged, Asked, Commit
from simulator.cluster.streams import Streams
from simulator.groups.bodies import Committer
from simulator.records.run import come_to_rest, why_unfinished
from simulator.records.world import RecordsWorld
from tests.simulator.records.worlds import broken
from tests.simulator.worlds import quiet_settings
from wire.types import TopicId

SEED = 43
CLASSIC, CONSUMER = "classic-1", "consumer-0"
"""Groups of that seed; each has a static member."""
NODE = 1


def rested_groups():
    settings = quiet_settings(observer_count=0, voter_count=1, hands_over=False, has_groups=True)
    world = RecordsWorld(settings, Streams(SEED), [])
    world.start()
    world.run(1_800_000)
    come_to_rest(world)
    return world


@pytest.fixture(scope="module")
def quiet():
    """At rest; each test repairs what it breaks."""
    return rested_groups()


@pytest.fixture
def checks(quiet):
    """The checks, which forget what a test told them."""
    checks = quiet.group_checks
    kept = {name: dict(getattr(checks, name)) for name in ("_newest", "_instances", "covered")}
    claims = {key: dict(rows) for key, rows in checks._claims.items()}
    yield checks
    for name, value in kept.items():
        setattr(checks, name, value)
    checks._claims = claims


def shard_of(world, group_id):
    (shard,) = [
        shard for _, shard in shards_of(world.nodes[NODE]) if group_id in shard.image.groups
    ]
    return shard


def entry_of(world, place):
    return shard_of(world, place[0]).image.offset(place[0], ("grouped", place[1]))


def with_image(world, group_id, change, act):
    """Act while the latest image of a coordinator is another."""
    shard = shard_of(world, group_id)
    before = shard.image
    shard.image = change(before)
    try:
        return act()
    finally:
        shard.image = before


def with_entry(world, place, entry, act):
    """Act while the coordinator has another offset, or none."""
    group_id, at = place[0], ("grouped", place[1])

    def change(image):
        of_group = image.offsets[group_id]
        changed = of_group.delete(at) if entry is None else of_group.set(at, entry)
        return replace(image, offsets=image.offsets.set(group_id, changed))

    return with_image(world, group_id, change, act)


def member_of(world, group_id, *, is_static=False):
    """A member of a group as the workload has it."""
    return next(
        slot.consumer.member
        for slot in world.groups.slots
        if slot.group_id == group_id and (slot.instance_id is not None) == is_static
    )


def other(by):
    return by._replace(member_id="other", instance_id=None)


def test_groups_are_stable_and_have_read_and_committed_all(quiet):
    quiet.group_checks.check_at_rest()
    assert quiet.groups.why_unfinished() == ""
    assert quiet.marks["offset_committed"] > 6
    assert quiet.marks["offset_fetched"] >= 6
    for group_id in (CLASSIC, CONSUMER):
        owned = [each.owned for each in (member_of(quiet, group_id, is_static=s) for s in (0, 1))]
        assert sorted(n for each in owned for n in each) == [0, 1, 2]
        assert min(quiet.group_checks.covered[group_id, n] for n in range(3)) > 1


@pytest.mark.parametrize("group_id", [CLASSIC, CONSUMER])
def test_there_is_no_rest_before_groups_are_stable(quiet, monkeypatch, group_id):
    member, static = member_of(quiet, group_id), member_of(quiet, group_id, is_static=True)
    with monkeypatch.context() as patch:
        patch.setattr(member, "owned", frozenset({7}))
        found = "is owned" if group_id == CLASSIC else "is not stable"
        assert found in why_unfinished(quiet)
    with monkeypatch.context() as patch:
        patch.setattr(static, "epoch", member.epoch + 1)
        epochs = [member.epoch, member.epoch + 1]
        assert f"group {group_id}: it is in epochs {epochs}" in why_unfinished(quiet)


def test_there_is_no_rest_before_all_is_read_and_committed(quiet, monkeypatch):
    slot = next(slot for slot in quiet.groups.slots if slot.group_id == CLASSIC)
    place = (CLASSIC, 0)
    end = quiet.group_checks.covered[place]

    class Reading:
        position, committed = end, end - 1

    with monkeypatch.context() as patch:
        patch.setattr(slot.consumer, "readers", {0: Reading})
        assert f"ends at {end}, position {end}, committed {end - 1}" in why_unfinished(quiet)
        patch.setattr(Reading, "committed", end)
        assert why_unfinished(quiet) == ""
        patch.setattr(Reading, "position", end - 1)
        assert "partition 0 ends at" in why_unfinished(quiet)


def test_d6_a_coordinator_without_an_offset_that_was_acknowledged(quiet, checks):
    place, machine = (CLASSIC, 0), quiet.nodes[NODE]
    text = with_entry(quiet, place, None, lambda: broken("D6", lambda: checks.after_step(machine)))
    assert "node 1 has none, and a commit was acknowledged" in text
    checks.after_step(machine)


def test_d6_a_coordinator_with_an_offset_before_it(quiet, checks):
    place, machine = (CONSUMER, 1), quiet.nodes[NODE]
    commits = [c for c in checks._commits[place].values() if 1 in c.acknowledged_us]
    older, entry = commits[0], entry_of(quiet, place)
    assert len(commits) > 1
    assert older.offsets[1] < entry.offset
    wrong = replace(entry, offset=older.offsets[1], metadata=older.metadata)
    text = with_entry(quiet, place, wrong, lambda: broken("D6", lambda: checks.after_step(machine)))
    assert "a later commit was acknowledged" in text


@pytest.mark.parametrize("changed", [{"metadata": "c999"}, {"offset": 1}])
def test_d6_a_coordinator_with_an_offset_of_nobody(quiet, checks, changed):
    place = (CLASSIC, 0)
    wrong = replace(entry_of(quiet, place), **changed)

    def check():
        return broken("D6", checks.check_at_rest)

    assert "which nobody committed" in with_entry(quiet, place, wrong, check)


def test_d6_a_commit_that_was_refused_is_nowhere(quiet, checks):
    place, by = (CLASSIC, 0), member_of(quiet, CLASSIC).committer
    entry = entry_of(quiet, place)
    commit = checks.attempt(by, {0: entry.offset})
    wrong = replace(entry, metadata=commit.metadata)
    machine = quiet.nodes[NODE]
    with_entry(quiet, place, wrong, lambda: checks.after_step(machine))  # it is not answered
    checks.refused(commit, 0)
    del checks._images._seen[NODE, 0], checks._images._seen[NODE, 1]
    text = with_entry(quiet, place, wrong, lambda: broken("D6", lambda: checks.after_step(machine)))
    assert "which was refused" in text


def test_d6_what_is_fetched_is_what_was_acknowledged_before(quiet, checks):
    place = (CLASSIC, 0)
    asked = checks.asking(CLASSIC, NODE)
    assert asked.reign is not None
    entry = entry_of(quiet, place)
    checks.fetched(place, entry.offset, entry.metadata, asked)
    assert "fetched none" in broken("D6", lambda: checks.fetched(place, -1, "", asked))
    first = min(c.acknowledged_us[0] for c in checks._commits[place].values() if c.acknowledged_us)
    checks.fetched(place, -1, "", Asked(first, asked.reign))
    broken("D6", lambda: checks.fetched(place, -1, "", Asked(first + 1, asked.reign)))


def test_d6_says_nothing_of_a_leader_that_is_not_the_newest(quiet, checks):
    asked = checks.asking(CLASSIC, NODE)
    older = asked.reign._replace(leader_epoch=asked.reign.leader_epoch - 1)
    for reign in (None, older):
        checks.fetched((CLASSIC, 0), -1, "", Asked(asked.sent_us, reign))
        checks.claimed(other(member_of(quiet, CLASSIC).committer), frozenset({0, 1, 2}),
                       Asked(asked.sent_us, reign))  # fmt: skip


@pytest.mark.parametrize("group_id", [CLASSIC, CONSUMER])
def test_d6_a_partition_has_one_member_in_an_epoch(quiet, checks, group_id):
    member = member_of(quiet, group_id)
    by, asked = member.committer, checks.asking(group_id, NODE)
    checks.claimed(by, member.owned, asked)
    checks.claimed(other(by)._replace(epoch=by.epoch + 1), member.owned, asked)
    assert (group_id, by.epoch + 1) not in checks._claims  # nothing is committed in it yet
    text = broken("D6", lambda: checks.claimed(other(by), member.owned, asked))
    assert f"'{by.member_id}' and 'other' have it in epoch {by.epoch}" in text


def test_d6_an_instance_is_one_owner_whoever_it_is(quiet, checks):
    member = member_of(quiet, CONSUMER, is_static=True)
    by = member.committer._replace(member_id="next")
    instance = (CONSUMER, by.instance_id)
    known = checks._instances[instance]
    asked = checks.asking(CONSUMER, NODE)
    checks.claimed(by, member.owned, asked._replace(sent_us=known[1]))
    assert checks._instances[instance] == known  # the answer may be of the one before
    checks.claimed(by, member.owned, asked)
    assert checks._instances[instance][0] == "next"


@pytest.mark.parametrize("group_id", [CLASSIC, CONSUMER])
def test_d6_nobody_commits_what_another_has_got(quiet, checks, group_id):
    member = member_of(quiet, group_id)
    by, partition = member.committer, min(member.owned)
    offsets = {partition: 0}
    for epoch, is_broken in ((by.epoch - 1, True), (by.epoch, True), (by.epoch + 1, False)):
        commit = checks.attempt(other(by)._replace(epoch=epoch), offsets)
        commit.sent_us += 1
        if is_broken:
            text = broken("D6", lambda c=commit: checks.acknowledged(c, partition))
            assert f"'other' commits in epoch {epoch}, '{by.member_id}' has it since" in text
        else:
            checks.acknowledged(commit, partition)
        forget(checks, (group_id, partition), commit)
    early = checks.attempt(other(by), offsets)
    early.sent_us = checks._newest[group_id, partition].since_us
    checks.acknowledged(early, partition)
    forget(checks, (group_id, partition), early)


def forget(checks, place, commit):
    """Take back the acknowledgement of a commit."""
    commit.acknowledged_us.clear()
    known = checks._acknowledged[place]
    del known._at_us[-1], known._sent_us[-1]


@pytest.mark.parametrize(("group_id", "is_broken"), [(CLASSIC, True), (CONSUMER, False)])
def test_d6_a_generation_is_over_for_all_of_its_members(quiet, checks, group_id, is_broken):
    member = member_of(quiet, group_id)
    partition = min(member.owned)
    commit = checks.attempt(member.committer._replace(epoch=0), {partition: 0})
    commit.sent_us += 1
    if is_broken:
        broken("D6", lambda: checks.acknowledged(commit, partition))
    else:
        checks.acknowledged(commit, partition)
    forget(checks, (group_id, partition), commit)


def test_d6_a_static_member_whose_place_another_has(quiet, checks):
    member = member_of(quiet, CLASSIC, is_static=True)
    partition, by = min(member.owned), member.committer
    commit = checks.attempt(by._replace(member_id="before"), {partition: 0})
    commit.sent_us += 1
    text = broken("D6", lambda: checks.acknowledged(commit, partition))
    assert f"as 'before', which '{by.member_id}' has replaced" in text
    forget(checks, (CLASSIC, partition), commit)
    commit.sent_us = checks._instances[CLASSIC, by.instance_id][1]
    checks.acknowledged(commit, partition)  # it was under way
    forget(checks, (CLASSIC, partition), commit)


def test_the_newest_of_the_commits_that_were_acknowledged_before_a_time():
    known, by = Acknowledged(), Committer(CLASSIC, "m", 1)
    for sent_us, at_us in ((5, 6), (3, 8)):
        known.add(Commit(by=by, offsets={}, number=1, sent_us=sent_us), at_us)
    assert [known.newest_sent_us(at_us) for at_us in (6, 7, 8, 9)] == [-1, 5, 5, 5]


def test_d6_a_group_begins_where_it_has_read_to(quiet, checks):
    place = (CLASSIC, 0)
    end = checks.covered[place]
    checks.started(place, end)
    checks.consumed(place, 0, end - 1)
    assert checks.covered[place] == end
    broken("D6", lambda: checks.started(place, end + 1))
    checks.consumed(place, end, end + 1)
    checks.started(place, end + 1)


def test_d6_a_generation_does_not_fall(quiet, checks):
    machine = quiet.nodes[NODE]

    def lowered(image):
        group = replace(image.groups[CLASSIC], generation=0)
        return replace(image, groups=image.groups.set(CLASSIC, group))

    def check():
        return broken("D6", lambda: checks.after_step(machine))

    text = with_image(quiet, CLASSIC, lowered, check)
    assert f"group {CLASSIC} falls from {member_of(quiet, CLASSIC).epoch} to 0" in text
    checks._images.mixed.add(CLASSIC)
    with_image(quiet, CLASSIC, lowered, lambda: checks.after_step(machine))
    checks._images.mixed.discard(CLASSIC)


@pytest.mark.parametrize(
    ("committed", "noted"),
    [
        (None, (ConsumerGroup, 5)),
        ((ConsumerGroup, 4), (ConsumerGroup, 5)),
        ((ConsumerGroup, 6), (ConsumerGroup, 6)),
        ((GroupMetadataValue, 6), (GroupMetadataValue, 6)),
        ((GroupMetadataValue, 4), (GroupMetadataValue, 4)),
    ],
)
def test_the_highest_epoch_is_that_of_the_kind_that_is_committed(quiet, committed, noted):
    images = quiet.group_checks._images
    images._epochs["g"] = known = (ConsumerGroup, 5)
    images._note_epoch("g", known, committed)
    assert images._epochs.pop("g") == noted


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (None, (ConsumerGroup, 1), False),
        ((ConsumerGroup, 5), (ConsumerGroup, 4), False),
        ((ConsumerGroup, 5), (GroupMetadataValue, 5), False),
        ((ConsumerGroup, 5), (GroupMetadataValue, 4), True),
        ((ConsumerGroup, 5), None, True),
    ],
)
def test_epochs_begin_anew_where_a_group_goes_or_becomes_one_of_another_kind(
    before, after, expected
):
    assert begins_anew(before, after) is expected


def test_epochs_begin_anew_before_that_is_committed(quiet, checks):
    """Until then a group may have become one of its kind again, and be in the same epoch."""
    machine = quiet.nodes[NODE]
    group = replace(shard_of(quiet, CLASSIC).image.groups[CLASSIC], generation=0)
    checks.after_step(machine)

    def anew(image):
        return replace(image, groups=image.groups.set(CONSUMER, group))

    with_image(quiet, CONSUMER, anew, lambda: checks.after_step(machine))
    assert set(checks._begun_us) == {CONSUMER}
    del checks._begun_us[CONSUMER]
    checks.after_step(machine)
    assert not checks._begun_us


TOPIC = TopicId(b"t" * 16)


def group_of(*members, epoch=5):
    group = ConsumerGroup(group_id="g", group_epoch=epoch, assignment_epoch=5)
    named = {each.member_id: each for each in members}
    return replace(group, members=group.members.update(named))


def given(member_id, epoch, *, has=(), revokes=()):
    return Member(
        member_id=member_id,
        member_epoch=epoch,
        assigned={TOPIC: dict.fromkeys(has, epoch)},
        pending_revocation={TOPIC: dict.fromkeys(revokes, epoch)},
    )


def test_d6_of_the_members_of_a_consumer_group():
    check_consumer_group(
        1, group_of(given("a", 5, has=(0,), revokes=(2,)), given("b", 4, has=(1,)))
    )
    text = broken(
        "D6",
        lambda: check_consumer_group(1, group_of(given("a", 5, has=(0,)), given("b", 5, has=(0,)))),
    )
    assert "partition 0 is of 'a' and 'b'" in text
    revoking = group_of(given("a", 5, revokes=(0,)), given("b", 5, has=(0,)))
    broken("D6", lambda: check_consumer_group(1, revoking))
    broken("D6", lambda: check_consumer_group(1, group_of(given("a", 6))))
    broken("D6", lambda: check_consumer_group(1, group_of(given("a", 4), epoch=4)))


def test_nothing_is_expected_of_what_all_replicas_lost():
    world = rested_groups()
    checks, place, machine = world.group_checks, (CLASSIC, 0), world.nodes[NODE]
    member = member_of(world, CLASSIC)
    by = member.committer
    before = checks.asking(CLASSIC, NODE)
    world.record_checks.power_lost(NODE)
    checks._claims.clear()
    checks.claimed(by, member.owned, before)
    assert checks._claims == {}
    checks._claims[CLASSIC, by.epoch] = {
        min(member.owned): checks._newest[CLASSIC, min(member.owned)]
    }
    world.scheduler.after(10, lambda: None)
    world.run(world.scheduler.now_us + 10)

    def lowered(image):
        group = replace(image.groups[CLASSIC], generation=0)
        offsets = image.offsets.delete(CLASSIC)
        return replace(image, groups=image.groups.set(CLASSIC, group), offsets=offsets)

    with_image(world, CLASSIC, lowered, lambda: checks.after_step(machine))
    asked = checks.asking(CLASSIC, NODE)
    checks.fetched(place, -1, "", asked)
    checks.claimed(other(by), member.owned, asked)
    commit = checks.attempt(Committer(CLASSIC, "third", by.epoch), {min(member.owned): 0})
    checks.acknowledged(commit, min(member.owned))


def test_epochs_that_begin_anew_are_of_other_members(quiet, checks):
    member = member_of(quiet, CONSUMER)
    by = member.committer
    asked = checks.asking(CONSUMER, NODE)
    checks._begin(CONSUMER)
    checks.claimed(other(by), member.owned, asked)  # it was asked before
    assert (CONSUMER, by.epoch) not in checks._claims
    assert not any(place[0] == CONSUMER for place in checks._newest)
    checks.claimed(other(by), member.owned, asked._replace(sent_us=asked.sent_us + 1))
    assert checks._newest[CONSUMER, min(member.owned)].owner == "other"
    del checks._begun_us[CONSUMER]
