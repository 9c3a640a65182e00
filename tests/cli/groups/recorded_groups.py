"""The groups that the recorded runs met, made again from what the outputs of the tools print.

Two moments: the members are there (`early`), and most have left (`late`).
"""

from pathlib import Path
from typing import Any

from tests.cli.groups.group_broker import Group, GroupBroker, Member
from tests.cli.groups.member_broker import JOIN_GROUP, MemberBroker
from tests.cli.records.broker import Log

MINUTE_MS = 60_000
NOW_MS = 1_795_000_000_000
ONE, TWO = "one-90a45b1d-c6f6-4581-8c7d-a1d16b985808", "two-aef251ab-e3b9-4bbe-a38b-251b303f5b51"
KONE, KTWO = "9qMdrXCNSOCfBpU7EAN7xg", "vQftkyJqRQ6DVIYYuwALVA"
INST_1 = "inst-1-08a62385-7531-42e5-a4d9-4ec02718adcf"
INST_2 = "inst-2-c7dcd7ce-6481-47be-8e28-41d40c72e2fe"
ALL = {"orders": (0, 1, 2), "payments": (0, 1)}
SEED: dict[Any, Any] = {("orders", 0): (35, 0), ("orders", 1): (0, -1), ("orders", 2): (0, -1)}
META: dict[Any, Any] = {("orders", 0): 5, ("orders", 1): 4}


def _read(orders: tuple[int, int, int], *payments: int) -> dict[Any, Any]:
    """Committed offsets with the leader epoch 0, none where nothing was read."""
    found = {("orders", n): (at, 0 if at else -1) for n, at in enumerate(orders)}
    return found | {("payments", n): (at, 0) for n, at in enumerate(payments)}


def _topics(*, is_late: bool) -> dict[str, Any]:
    """Logs with the recorded ends; the first record of orders-1 is older than ten minutes."""
    ends = {"orders": (35, 1 + is_late, 0), "payments": (14 + is_late, 10 + is_late)}
    made: dict[str, Any] = {"orders-perf": [Log()], "empty-topic": [Log()]}
    for topic, of_topic in ends.items():
        made[topic] = [Log() for _ in of_topic]
        for log, end in zip(made[topic], of_topic, strict=True):
            for number in range(end):
                is_old = log is made[topic][1] and number == 0
                at = NOW_MS - (20 if is_old else 5) * MINUTE_MS
                log.append(b"%d" % number, max_timestamp_ms=at)
    return made


def early() -> list[Group]:
    """All members are there."""
    return [
        Group("g-classic", "Stable", assignor="range", subscribed={"orders"}, members=[
            Member(ONE, {"orders": (0, 1), "payments": (0,)}, "one"),
            Member(TWO, {"orders": (2,), "payments": (1,)}, "two"),
        ], offsets=_read((35, 1, 0), 14, 10)),
        Group("g-k848", "Stable", "Consumer", assignor="uniform", epoch=3, members=[
            Member(KTWO, {"orders": (1, 2)}, "ktwo", "kinst", 3),
            Member(KONE, {"payments": (0, 1), "orders": (0,)}, "kone", None, 3),
        ], offsets=_read((35, 1, 0), 14, 10)),
        Group("g-librdkafka", offsets={("payments", 0): 2, ("payments", 1): 9}),
        Group("g-meta", protocol_type="", offsets=META),
        Group("g-range", "Stable", "Consumer", assignor="range", epoch=2, members=[
            Member("6MRD20VnTsOSmPMzCQS9Mw", {"orders": (0, 1, 2)}, "consumer-g-range-4", None, 2),
        ], offsets=_read((35, 1, 0))),
        Group("g-regex", "Stable", "Consumer", assignor="uniform", epoch=2, members=[
            Member("iG7ttKEySTmdGuy8MVAn8Q", {"orders": (0, 1, 2), "orders-perf": (0,)},
                   "consumer-g-regex-3", None, 2),
        ], offsets=_read((35, 1, 0)) | {("orders-perf", 0): 0}),
        Group("g-static", "Stable", assignor="cooperative-sticky", members=[
            Member(INST_2, {"orders": (2,)}, "consumer-g-static-inst-2", "inst-2"),
            Member(INST_1, {"orders": (0, 1)}, "consumer-g-static-inst-1", "inst-1"),
        ], offsets=_read((35, 1, 0))),
        Group("g-txn-offsets", protocol_type="",
              offsets={("orders", 0): 4, ("orders", 1): 2}),
        Group("g-txn-second", protocol_type="", offsets={("orders", 2): 1}),
        Group("seed", offsets=SEED),
        Group("g-share", "Stable", "Share", "share"),
        Group("g-streams", "Stable", "Streams", "streams"),
    ]  # fmt: skip


def late() -> list[Group]:
    """Most members have left."""
    found = {group.name: group for group in early()}
    for name in ("g-classic", "g-k848", "g-range", "g-regex"):
        group = found[name]
        group.state, group.members, group.subscribed = "Empty", [], set()
    found["g-classic"].assignor = ""
    found["g-classic"].offsets = _read((35, 2, 0), 15, 11)
    static = found["g-static"]
    static.state, static.members = "PreparingRebalance", static.members[1:]
    return list(found.values())


def with_more(*names: str) -> list[Group]:
    return [*late(), *(Group(name, protocol_type="") for name in names)]


EARLY = ("describe-all", "describe-classic", "describe-k848", "describe-meta", "describe-regex",
         "describe-seed", "describe-static", "describe-two", "list", "delete-in-use",
         "delete-offsets-subscribed", "reset-in-use", "groups-list")  # fmt: skip
"""Beginnings of the names of runs while the members were there."""
AT_THE_END = ("g-regex", "g-range", "g-meta")
"""Deleted before `groups-list-end`."""


def broker(name: str) -> GroupBroker:
    """The broker as it was when an output was made."""
    run = name.partition("/")[2].removeprefix("consumer-")
    if run.startswith("verifiable-"):
        return _readable()
    if run.startswith("perf"):
        return _measurable()
    short = run if run.startswith("groups-list") else run.removeprefix("groups-")
    is_early = short.startswith(EARLY) and short not in (
        "describe-static-after-close", "groups-list-end",
    )  # fmt: skip
    made = GroupBroker(early() if is_early else late(), **_topics(is_late=not is_early))
    made.clock.at_ms = 0
    CHANGES.get(short, lambda _broker: None)(made)
    return made


def _readable() -> MemberBroker:
    """A broker whose groups can be joined, `orders` as it was when they were."""
    made = MemberBroker(orders=3)
    first, second, _ = made.topics["orders"].logs
    first.append(*(b"line %d" % number for number in range(35)))
    first.start = 2
    second.append(b"hanging")
    return made


def _measurable() -> MemberBroker:
    """A broker with 500 records for one who joins in almost two seconds."""
    made = MemberBroker(**{"orders-perf": 1, "empty-topic": 1})
    made.topics["orders-perf"].logs[0].append(*[bytes(50)] * 500)
    made.held_ms = {JOIN_GROUP: 950}
    return made


def _members_again(broker: GroupBroker) -> None:
    """In use: the members of the early moment."""
    for group in early():
        if group.members:
            broker.groups[group.name] = group


def _deleted(broker: GroupBroker) -> None:
    for name in AT_THE_END:
        del broker.groups[name]
    for name in ("g-console", "g-new", "g-share2"):
        broker.groups[name] = Group(name)
    broker.groups["g-new"].protocol_type = ""
    broker.groups["g-share2"] = Group("g-share2", "Empty", "Share", "share")
    broker.groups["g-console848"] = Group("g-console848", "Empty", "Consumer")


def _file_read(broker: GroupBroker) -> None:
    broker.groups["g-classic"].offsets |= {("orders", 0): 1, ("orders", 2): 0}


def _new(broker: GroupBroker) -> None:
    broker.groups["g-new"] = Group("g-new", protocol_type="")


def _no_connection(broker: GroupBroker) -> None:
    broker.refused = [60]


CHANGES: dict[str, Any] = {
    "delete-mixed": _members_again,
    "groups-list-end": _deleted,
    "describe-empty-group": _file_read,
    "reset-all-groups-dry": _new,
    "timeout-bad-server": _no_connection,
}


FILES = {
    "plan.csv": "orders,0,1\norders,2,2\n",
    "plan2.csv": "g-classic,orders,0,2\nseed,orders,1,1\n",
    "planbad.csv": "just one column\n",
}


def write_files(folder: Path) -> None:
    """The files of the command lines; what was in them is told by the outputs."""
    for name, text in FILES.items():
        (folder / name).write_text(text)
