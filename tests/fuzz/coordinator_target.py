"""Target: the coordinators of groups and transactions of a whole broker, that anybody may ask.

Requests of every API of theirs in every version, field by field: ids that exist, that never did
and that cannot be; the members and producers that earlier answers named; numbers at their bounds.
None ends the broker, and none keeps another group from its offsets (`UnderFire.receive`). As with
the target of the whole broker, one lives on for some hundreds of cases; then the next leader of its
partitions must find in their logs what it knew.
"""

import io
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cache, partial
from random import Random
from typing import Any
from uuid import UUID

from kio.serial import entity_writer

from broker.effects import Ask, SendParts
from broker.events import Answered, ConnectionClosed, ConnectionOpened, FramesReceived, TimeAdvanced
from coordinator.records.kinds import TRANSACTION_STATE
from metadata.features import GROUP_VERSION, TRANSACTION_VERSION
from metadata.records import FeatureLevelRecord
from tests.broker.apis.test_txn_offset_commit import STATE, Transactional
from tests.broker.coordinators.coordinated import Coordinated, answer_in
from tests.broker.fronts import LISTENER
from tests.broker.metadata_log import B
from tests.fuzz import entities
from tests.fuzz.engine import Target
from wire.api_keys import (
    ALLOCATE_PRODUCER_IDS,
    CONSUMER_GROUP_HEARTBEAT,
    END_TXN,
    INIT_PRODUCER_ID,
    JOIN_GROUP,
)
from wire.connections.headers import RequestHeader, encode_request_header
from wire.errors import ErrorCode
from wire.messages import codec

CASES_PER_BROKER = 300
STEP_MS = 500
QUIET_MS = 20_000
TURNS = 40
VERSIONS = {
    8: range(2, 11), 9: range(1, 11), 10: range(7), 11: range(10), 12: range(5), 13: range(6),
    14: range(6), 15: range(7), 16: range(6), 22: range(6), 24: range(6), 25: range(5),
    26: range(6), 27: range(1, 3), 28: range(6), 42: range(3), 47: range(1), 65: range(1),
    66: range(3), 68: range(2), 69: range(2),
}  # fmt: skip
"""Versions by API key."""
OFTEN = (JOIN_GROUP, 14, CONSUMER_GROUP_HEARTBEAT, INIT_PRODUCER_ID, 24, 28, END_TXN)
USUAL_TIMES_MS = (6_000, 60_000, 60_000)
FIRST_CONNECTION = 10
OPEN_MAX = 12
"""Connections that stay open, for answers that wait."""
OTHERS = "untouched"
"""The group that must not be hindered, of a name that no mutation makes."""
NAMES = ("g", "g", "g", "g3", "x", "x", "y", "", " ", "\x00", "é" * 9, "n" * 32_767)
TOPICS = ("a", "a", "b", "none", "", "__consumer_offsets", "__transaction_state", "t" * 32_767)
TOPIC_IDS = (B, b"o" * 16, b"z" * 16, None)
INSTANCES = ("i", "i", "j", "", " ")
REGEXES = ("a|b", ".*", "", "(", "[", "a{1001}", "(?=a)", r"\C", "\x00", "é", "(a*)*" * 9)
PROTOCOLS = ("range", "range", "range", "consumer", "", "nope")
STATES = ("Empty", "Ongoing", "Stable", "CompleteCommit", "empty", "", "nope")
TIMES_MS = (-(2**31), -1, 0, 1, 10, 6_000, 6_001, 30_000, 60_000, 2**31 - 1)
SUBSCRIPTIONS = (
    bytes.fromhex("0000 00000001 0001 61 ffffffff"),
    bytes.fromhex("0001 00000001 0001 61 ffffffff 00000001 0001 61 00000001 00000000"),
    bytes.fromhex("0003 00000002 0001 61 0001 62 00000000 00000000 00000007 0001 72"),
    bytes.fromhex("0003 00000001 000161 ffffffff 00000001 000161 00000001 00000009 ffffffff ffff"),
    bytes.fromhex("0000 7fffffff 0001 61"),
    bytes.fromhex("0000 00000001 0002 ff61 ffffffff"),
    bytes.fromhex("0000 00000000 ffffffff"),
    bytes.fromhex("ffff 00000000 ffffffff"),
    b"", b"\0", b"x" * 40,
)  # fmt: skip


def enable(broker: Coordinated) -> None:
    """Turn on the newest protocols."""
    for name, level in ((GROUP_VERSION, 1), (TRANSACTION_VERSION, 2)):
        broker.metadata.write(FeatureLevelRecord(name=name, feature_level=level))


class Successor(Coordinated):
    """A broker that begins with the topics of both coordinators and their logs."""

    def register_at(self, host: str, port: int, **fields: Any) -> None:
        super().register_at(host, port, **fields)
        self.metadata.topic(TRANSACTION_STATE, STATE, partitions=1)
        enable(self)


def check_successor(broker: Coordinated) -> None:
    """Let a broker finish, and compare what is committed with what the next one loads."""
    broker.now_ms += QUIET_MS
    for _ in range(TURNS):
        broker.step(TimeAdvanced())
    after = Successor(vfs=broker.vfs, has_offsets=True)
    for _ in range(TURNS):
        after.step(TimeAdvanced())
    for known, loaded in zip(_coordinators(broker), _coordinators(after), strict=True):
        for old, new in zip(known.active(), loaded.active(), strict=True):
            assert new.committed == old.committed


def _coordinators(broker: Coordinated) -> tuple[Any, Any]:
    return broker.groups, broker.broker._transactions.coordinator


@dataclass(frozen=True)
class Known:
    """A member or a producer that an answer named: its group or id, and its epoch."""

    owner: str
    name: str | int
    epoch: int


class UnderFire:
    """A broker, what its answers named, and the answers that it owes."""

    def __init__(self) -> None:
        self._broker: Transactional | None = None
        self._cases = 0
        self._asked: dict[int, bytes] = {}
        """Requests of open connections."""
        self.members: list[Known] = []
        self.producers: list[Known] = []

    def receive(self, data: bytes) -> int:
        """A request without its length, on a connection of its own; number of the answers.

        Behind it the other group commits an offset, and finds it.
        """
        broker = self._ready()
        self._cases += 1
        number = FIRST_CONNECTION + self._cases
        self._asked[number] = data
        effects = broker.step(ConnectionOpened(number, LISTENER, "127.0.0.1"))
        effects += broker.step(FramesReceived(number, [bytearray(data)]))
        broker.now_ms += STEP_MS
        for _ in range(4):
            effects += broker.step(TimeAdvanced())
        effects += self._blocks(broker, effects)
        sent = [each for each in effects if isinstance(each, SendParts)]
        for each in sent:
            self._learn(each)
        if number - OPEN_MAX in self._asked:
            broker.step(ConnectionClosed(number - OPEN_MAX))
            del self._asked[number - OPEN_MAX]
        self._check_others(broker)
        return len(sent)

    def _check_others(self, broker: Transactional) -> None:
        offset = self._cases
        codes = broker.commit({"a": [(0, offset)]}, group=OTHERS)
        assert codes == {"a": {0: ErrorCode.none}}, f"{codes=} of another group"
        found = broker.fetch((OTHERS, {"a": [0]}))
        assert found == {OTHERS: ("none", {"a": {0: (offset, -1, "", "none")}})}, f"{found=}"

    def _ready(self) -> Transactional:
        if self._broker is None or self._cases >= CASES_PER_BROKER:
            if self._broker is not None:
                check_successor(self._broker)
            broker = Transactional()
            enable(broker)
            broker.publish()
            broker.turns()
            self._broker, self._cases = broker, 0
            self._asked.clear()
            self.members.clear()
            self.producers.clear()
        return self._broker

    def _blocks(self, broker: Transactional, effects: list[Any]) -> list[Any]:
        """Give the producer ids that are asked for."""
        new: Any = codec.newest(ALLOCATE_PRODUCER_IDS, "response")
        block = new.AllocateProducerIdsResponse(
            throttle_time=timedelta(0), error_code=ErrorCode.none, producer_id_start=70,
            producer_id_len=1_000,
        )  # fmt: skip
        more = []
        for ask in [each for each in effects if isinstance(each, Ask)]:
            if ask.api_key == ALLOCATE_PRODUCER_IDS:
                more += broker.step(Answered(ask.token, block))
        return more

    def _learn(self, sent: SendParts) -> None:
        """Note the member or the producer that an answer names."""
        data = self._asked[sent.connection_id]
        key, version = int.from_bytes(data[:2], "big"), int.from_bytes(data[2:4], "big")
        if key not in (JOIN_GROUP, CONSUMER_GROUP_HEARTBEAT, INIT_PRODUCER_ID, END_TXN):
            return
        request: Any = codec.decode_as_sent(data)
        answer = answer_in(key, version, [sent])
        if getattr(answer, "member_id", None):
            epoch = getattr(answer, "generation_id", getattr(answer, "member_epoch", 0))
            self.members.append(Known(request.group_id, answer.member_id, epoch))
        if getattr(answer, "producer_id", -1) >= 0 and request.transactional_id is not None:
            known = Known(request.transactional_id, answer.producer_id, answer.producer_epoch)
            self.producers.append(known)


# ---- requests field by field -----------------------------------------------------------------


POOLS = (
    ("member_id", ("", "m", "n", "", "w" * 32_767)), ("instance", INSTANCES),
    ("regex", REGEXES), ("pattern", REGEXES), ("topic_names", TOPICS), ("group", NAMES),
    ("transactional", NAMES), ("key", NAMES), ("topic", TOPICS), ("state", STATES),
    ("types", ("classic", "consumer", "")),
    ("protocol_type", ("consumer",) * 4 + ("", "connect")), ("protocol", PROTOCOLS),
    ("assignor", PROTOCOLS), ("metadata", ("", "m", "", "m" * 4_097)),
)  # fmt: skip
"""Texts by a part of the name of their field: the first half of them are the usual ones."""


class _Maker:
    """Makes bodies of requests with what a broker is known to have, and odd ones at times."""

    def __init__(self, state: UnderFire, rng: Random) -> None:
        self._rng = rng
        self._odds = rng.choice((0, 0, 0.03, 0.3))
        group, name = rng.choice(NAMES[:6]), rng.choice(NAMES[:6])
        new = (Known(group, "", 0), Known(group, "m", 0), Known(group, "n", 1))
        self._member = (
            rng.choice(state.members[-5:] * 2 or new)
            if rng.random() < 0.7
            else new[rng.randrange(3)]
        )
        self._producer = rng.choice(state.producers[-4:] or [Known(name, -1, -1)])

    def body(self, cls: type) -> Any:
        """The body of a request."""
        made = self.entity(cls)
        if cls.__name__ != "ConsumerGroupHeartbeatRequest" or self._is_odd():
            return made
        if made.member_epoch == 0:  # it says all
            minute = timedelta(minutes=1)
            names = made.subscribed_topic_names or ("a",)
            made = replace(
                made, topic_partitions=(), rebalance_timeout=minute, subscribed_topic_names=names
            )
        return replace(
            made, member_id=made.member_id or "m", rack_id=None, server_assignor=None,
            instance_id=made.instance_id or None,
        )  # fmt: skip

    def entity(self, cls: type) -> Any:
        """A body or a row of one."""
        rng, values = self._rng, {}
        for name, kind, nested, array, nullable in entities._fields(cls):
            if nullable and rng.random() < (0.7 if "instance" in name else 0.25):
                values[name] = None
            elif array:
                count = rng.choice((0, 1, 2, 3)) if self._is_odd() else rng.choice((1, 1, 2))
                made = [self._value(name, kind, nested) for _ in range(count)]
                values[name] = tuple(made + made[: self._is_odd()])  # the same once more
            else:
                values[name] = self._value(name, kind, nested)
        return cls(**values)

    def _is_odd(self) -> bool:
        return self._rng.random() < self._odds

    def _value(self, name: str, kind: str, nested: type | None) -> Any:
        rng, is_odd = self._rng, self._is_odd()
        if nested is not None:
            return self.entity(nested)
        if kind.startswith("timedelta"):
            return timedelta(milliseconds=rng.choice(TIMES_MS if is_odd else USUAL_TIMES_MS))
        if kind in entities.BITS:
            bits = entities.BITS[kind]
            return _odd_integer(bits, rng) if is_odd else self._integer(name)
        if kind == "string":
            return self._text(name, is_odd=is_odd)
        if name in ("enable2_pc", "keep_prepared_txn"):
            return is_odd
        return self._other(kind, is_odd=is_odd)

    def _other(self, kind: str, *, is_odd: bool) -> Any:
        rng = self._rng
        if kind == "bytes":
            return rng.choice(SUBSCRIPTIONS if is_odd else SUBSCRIPTIONS[:4])
        if kind == "uuid":
            found = rng.choice(TOPIC_IDS)
            return None if found is None else UUID(bytes=found)
        return entities._value(kind, None, rng, 0)

    def _integer(self, name: str) -> int:
        rng = self._rng
        if "producer_id" in name:
            return int(self._producer.name)
        if "producer_epoch" in name:
            return self._producer.epoch
        if name in ("generation_id", "generation_id_or_member_epoch", "member_epoch"):
            return rng.choice((self._member.epoch,) * 6 + (0, 0, -1, -2, self._member.epoch + 1))
        if name == "coordinator_epoch":
            return rng.choice((0, 0, 1, -1))
        return rng.choice((0, 0, 0, 1, 1, 2, -1))

    def _text(self, name: str, *, is_odd: bool) -> str:
        rng = self._rng
        known = {
            "group_id": self._member.owner, "member_id": str(self._member.name),
            "leader": str(self._member.name), "assignment": str(self._member.name),
            "transactional_id": self._producer.owner,
            "v3_and_below_transactional_id": self._producer.owner,
        }  # fmt: skip
        if not is_odd and name in known and rng.random() < 0.95:
            return known[name]
        for part, pool in POOLS:
            if part in name:
                return rng.choice(pool if is_odd else pool[: max(1, len(pool) // 2)])
        return rng.choice((*PROTOCOLS, *TOPICS) if is_odd else ("a", "a", "b"))


def _odd_integer(bits: int, rng: Random) -> int:
    high = 2 ** (bits - 1)
    return rng.choice((-high, -2, -1, 7, 100, high - 2, high - 1))


def _frame(state: UnderFire, rng: Random) -> bytes:
    key = rng.choice((*VERSIONS, *OFTEN, *OFTEN))
    version = rng.choice(VERSIONS[key])
    cls = codec.entity_class(key, version, "request")
    body = io.BytesIO()
    entity_writer(cls)(body, _Maker(state, rng).body(cls))
    header = RequestHeader(key, version, 1, "client")
    return (
        encode_request_header(header, is_flexible=codec.is_flexible(key, version)) + body.getvalue()
    )


@cache
def _seeds() -> tuple[bytes, ...]:
    rng, state = Random(1), UnderFire()
    return tuple(_frame(state, rng) for _ in range(40))


def targets() -> list[Target]:
    """All of this file."""
    state = UnderFire()
    return [
        Target(
            "coordinators", _seeds(), state.receive, (), None, partial(_frame, state),
            cpu_seconds_max=1.0, weight=0.2,
        ),
    ]  # fmt: skip
