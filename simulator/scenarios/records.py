"""Scenarios of records: a controller (1), brokers (101, 102, ...) and a client that asks by hand.

Whole nodes run over a virtual network and disk, with Kafka's settings. A command lets 20 ms pass:
enough for what it begins to end, not for time-outs, for which there is `advance`. `hold` stops what
brokers send each other, until `deliver` lets it pass one by one. Lines say what changes at
replicas, what followers fetch, and what the client is answered (`records_text`).

Each command is described at its method.
"""

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, Final
from uuid import UUID

from msgspec.structs import replace

from broker.config import UpkeepConfig
from simulator.cluster.machine import DATA, WALL_MS
from simulator.mutants.records import RECORDS
from simulator.mutants.registry import Mutant
from simulator.records import requests
from simulator.scenarios.command import Command, ScenarioError, to_int, to_ints
from simulator.scenarios.groups import GroupClients
from simulator.scenarios.records_cluster import (
    MS,
    BrokerSettings,
    ScenarioMachine,
    ScenarioWorld,
)
from simulator.scenarios.records_text import (
    batch_text,
    consumed_text,
    produced_text,
    view_text,
)
from simulator.scenarios.transactions import TransactionCommands
from wire.api_keys import FETCH, LIST_OFFSETS, PRODUCE
from wire.batches.batch import iterate_batches
from wire.errors import ErrorCode

SETTLE_MS: Final = 20
ANSWER_US: Final = 120_000_000
ACKS: Final = {"all": -1, "0": 0, "1": 1}
TIMES: Final = {"latest": -1, "earliest": -2, "max": -3}
DEFAULT_PARTITION: Final = "t-0"
UPKEEP_KEYS: Final = {
    "log.retention.check.interval.ms": "retention_check_ms",
    "log.flush.offset.checkpoint.interval.ms": "recovery_point_ms",
    "log.flush.start.offset.checkpoint.interval.ms": "log_start_ms",
    "replica.high.watermark.checkpoint.interval.ms": "high_watermark_ms",
}
LAG_KEY: Final = "replica.lag.time.max.ms"


class RecordsScenario:
    """Environment of tests/scenarios/records."""

    def __init__(self) -> None:
        self._world: ScenarioWorld | None = None
        self._flaws: list[Mutant] = []
        self._shown_end = 0
        self.commands: dict[str, Callable[[Command], list[str] | None]] = {
            "cluster": self._cluster,
            "flaw": self._flaw,
            "feature": self._feature,
            "topic": self._topic,
            "produce": self._produce,
            "fetch": self._fetch,
            "offset": self._offset,
            "delete-records": self._delete_records,
            "hold": self._hold,
            "deliver": self._deliver,
            "release": self._release,
            "kill": self._kill,
            "stop": self._stop,
            "start": self._start,
            "damage": self._damage,
            "cut": self._cut,
            "advance": self._advance,
            "state": self._state,
            "log": self._log,
            "file": self._file,
            "files": self._files,
            "leaders": self._leaders,
            "largest-batch": self._largest_batch,
            **TransactionCommands(lambda: self.world).commands,
            **GroupClients(lambda: self.world).commands,
        }

    @property
    def world(self) -> ScenarioWorld:
        """The cluster, which must have been made."""
        if self._world is None:
            raise ScenarioError("there is no cluster")
        return self._world

    def run(self, command: Command) -> list[str]:
        """Perform one command; return what it changed, or what it asks for."""
        if command.name not in self.commands:
            allowed = ", ".join(sorted(self.commands))
            raise ScenarioError(f"no command {command.name!r}, allowed: {allowed}")
        with ExitStack() as stack:
            for mutant in self._flaws:
                stack.enter_context(mutant.apply())
            shown = self.commands[command.name](command)
            if self._world is not None and shown is None:
                self._world.advance(SETTLE_MS)
        if self._world is None:
            return shown or []
        return self._world.take_lines() + (shown or [])

    # --- the cluster ----------------------------------------------------------------------------

    def _cluster(self, command: Command) -> None:
        """`cluster brokers=2 [KEY=VALUE ...]`: start; keys of brokers have a dot."""
        count = command.number_option("brokers", 2)
        keys = _keys(command)
        upkeep = {field: int(keys.pop(key)) for key, field in UPKEEP_KEYS.items() if key in keys}
        settings = BrokerSettings(
            lag_ms_max=int(keys.pop(LAG_KEY, "30000")),
            properties=tuple(sorted(keys.items())),
            upkeep=replace(UpkeepConfig(), **upkeep),
        )
        self._world = ScenarioWorld(count, settings)
        self._world.start_up()

    def _flaw(self, command: Command) -> list[str]:
        """`flaw NAME`: brokers have the flaw of a mutant (simulator/mutants) from now on."""
        name = command.argument(0, "name of a mutant")
        mutant = next((each for each in RECORDS if each.name == name), None)
        if mutant is None:
            raise ScenarioError(f"no mutant {name!r}")
        self._flaws.append(mutant)
        return []

    def _feature(self, command: Command) -> None:
        """`feature NAME LEVEL`: raise a feature of the cluster, as its controller allows."""
        name, level = command.argument(0, "name"), to_int(command.argument(1, "level"))
        body = requests.upgrade_feature(name, level)
        answers = self._ask(self.world.brokers[0], requests.UPDATE_FEATURES, body)
        self.world.advance(SETTLE_MS)
        if not answers or answers[0] is None:
            raise ScenarioError("no answer")
        if answers[0].error_code is not ErrorCode.none:
            raise ScenarioError(f"{answers[0].error_code.name}: {answers[0].error_message}")

    def _topic(self, command: Command) -> None:
        """`topic t 101,102 [102,101 ...] [KEY=VALUE ...]`: create; replicas of each partition."""
        world, name = self.world, command.argument(0, "name")
        rows = [to_ints(text) for text in command.rest(1)]
        body = requests.create_assigned_topic(name, rows, _keys(command))
        answers = self._ask(rows[0][0], requests.CREATE_TOPICS, body)
        world.advance(SETTLE_MS)
        if not answers or answers[0] is None:
            raise ScenarioError("no answer")
        row = answers[0].topics[0]
        if row.error_code is not ErrorCode.none:
            raise ScenarioError(f"{row.error_code.name}: {row.error_message}")
        world.add_topic(row.topic_id.bytes, name)

    # --- the client -----------------------------------------------------------------------------

    def _ask(self, target: int, api_key: int, body: Any) -> list[Any]:
        """Ask a node; the answer is in the list once it came."""
        answers: list[Any] = []
        self._request(target, api_key, body, answers.append)
        return answers

    def _request(
        self, target: int, api_key: int, body: Any, answered: Callable[[Any], None]
    ) -> None:
        self.world.link_to(target, api_key).request(api_key, body, answered, ANSWER_US)

    def _partition(self, command: Command) -> tuple[str, UUID, int]:
        name = command.option("partition", DEFAULT_PARTITION)
        topic_id, number = self.world.key_of(name)
        return name, UUID(bytes=bytes(topic_id)), number

    def _produce(self, command: Command) -> None:
        """`produce 101 a b [acks=all|1|0] [partition=t-0] [time=MS] [producer=7 sequence=0]`.

        One batch; `epoch=` is that of the producer, `time` of its records (now), `key` their key,
        `bytes` the length to which its values are filled up.
        """
        target, values = command.number(0, "node"), command.rest(1)
        _, topic_id, number = self._partition(command)
        key = (topic_id.bytes, number)
        acks = ACKS[command.option("acks", "all")]
        world = self.world
        now_ms = WALL_MS + world.now_us // MS
        producer_id = command.number_option("producer", -1)
        producer = requests.Producer(producer_id, command.number_option("epoch", 0))
        contents = [v.ljust(command.number_option("bytes", 0), ".").encode() for v in values]
        records = requests.batch(
            contents,
            command.number_option("time", now_ms),
            producer if producer_id >= 0 else None,
            command.number_option("sequence", 0),
            key=command.option("key", "").encode() or None,
        )
        sent_us = world.now_us

        def answered(body: Any) -> None:
            world.say(produced_text(values, body))
            row = None if body is None else body.responses[0].partition_responses[0]
            if row is not None and row.error_code is ErrorCode.none and acks == ACKS["all"]:
                world.note_acknowledged(key, row.base_offset, contents, sent_us)

        body = requests.produce(topic_id, number, records, acks)
        self._request(target, PRODUCE, body, answered)

    def _fetch(self, command: Command) -> None:
        """`fetch 101 0 [partition=t-0] [epoch=1]`: read as a consumer from an offset on."""
        target, offset = command.number(0, "node"), command.number(1, "offset")
        _, topic_id, number = self._partition(command)
        world, sent_us = self.world, self.world.now_us

        def answered(body: Any) -> None:
            world.say(consumed_text(offset, body))
            row = None if body is None else body.responses[0].partitions[0]
            if row is not None and row.error_code is ErrorCode.none:
                for batch in iterate_batches(bytes(row.records or b"")):
                    values = [record.value or b"" for record in batch.records()]
                    key = (topic_id.bytes, number)
                    world.note_consumed(key, batch.header.base_offset, values, sent_us)

        epoch = command.number_option("epoch", -1)
        body = requests.fetch(topic_id, number, offset, epoch)
        self._request(target, FETCH, body, answered)

    def _offset(self, command: Command) -> None:
        """`offset 101 latest|earliest|max|MS [partition=t-0]`: ListOffsets of a consumer."""
        target, at = command.number(0, "node"), command.argument(1, "time")
        name, _, number = self._partition(command)
        topic, time_ms = name.rpartition("-")[0], TIMES.get(at)

        def answered(body: Any) -> None:
            row = body.topics[0].partitions[0]
            found = f"offset={row.offset} time={row.timestamp} epoch={row.leader_epoch}"
            text = found if row.error_code is ErrorCode.none else row.error_code.name
            self.world.say(f"=> offset {at}: {text}")

        body = requests.list_offsets(topic, number, to_int(at) if time_ms is None else time_ms)
        self._request(target, LIST_OFFSETS, body, answered)

    def _delete_records(self, command: Command) -> None:
        """`delete-records 101 OFFSET [partition=t-0]`: DeleteRecords; -1 is the high watermark."""
        target, offset = command.number(0, "node"), command.number(1, "offset")
        name, _, number = self._partition(command)

        def answered(body: Any) -> None:
            row = body.topics[0].partitions[0]
            text = f"low watermark={row.low_watermark}"
            said = text if row.error_code is ErrorCode.none else row.error_code.name
            self.world.say(f"=> delete-records {offset}: {said}")

        body = requests.delete_records(name.rpartition("-")[0], number, offset)
        self._request(target, requests.DELETE_RECORDS, body, answered)

    # --- network and processes ------------------------------------------------------------------

    def _pair(self, command: Command) -> tuple[int, int]:
        world = self.world
        source, target = command.number(0, "from"), command.number(1, "to")
        return world.node(source).id, world.node(target).id

    def _hold(self, command: Command) -> None:
        """`hold 101 102`: what they send each other waits."""
        self.world.hold(*self._pair(command))

    def _deliver(self, command: Command) -> None:
        """`deliver 101 102`: the oldest of what waits arrives at 102."""
        source, target = self._pair(command)
        if not self.world.pass_one(source, target):
            raise ScenarioError(f"nothing is held from {source} to {target}")

    def _release(self, command: Command) -> None:
        """`release 101 102`: all that waits arrives, and nothing waits from now on."""
        self.world.release(*self._pair(command))

    def _machine(self, command: Command) -> ScenarioMachine:
        machine = self.world.node(command.number(0, "node"))
        assert isinstance(machine, ScenarioMachine), f"{machine=}"
        return machine

    def _kill(self, command: Command) -> None:
        """`kill 101`: SIGKILL."""
        machine = self._machine(command)
        machine.kill()
        self.world.forget_views(machine.id)

    def _stop(self, command: Command) -> None:
        """`stop 101`: SIGTERM, a controlled shutdown."""
        self._machine(command).terminate()

    def _start(self, command: Command) -> None:
        """`start 101`: start a process on its disk."""
        machine = self._machine(command)
        if machine.is_up:
            raise ScenarioError(f"{machine.id} runs")
        self.world.forget_views(machine.id)
        self.world.restart(machine)

    def _damage(self, command: Command) -> None:
        """`damage 101 t-0/00000000000000000000.log 70`: change a byte of a file."""
        path, position = command.argument(1, "path"), command.number(2, "position")
        self._machine(command).vfs.damage(f"{DATA}/{path}", position, b"#")

    def _cut(self, command: Command) -> None:
        """`cut 101 t-0/00000000000000000000.log 70`: keep so many bytes of a file."""
        path, size = command.argument(1, "path"), command.number(2, "bytes")
        file = self._machine(command).vfs.open(f"{DATA}/{path}")
        file.truncate(size)
        file.close()

    def _advance(self, command: Command) -> None:
        """`advance MS`: let time pass."""
        self.world.advance(command.number(0, "time in ms"))

    # --- looking --------------------------------------------------------------------------------

    def _state(self, command: Command) -> list[str]:
        """`state [101,102]`: all replicas of the brokers."""
        world = self.world
        ids = to_ints(command.argument(0, "nodes")) if command.rest(0) else world.brokers
        lines = []
        for number in ids:
            if world.node(number).records is None:
                lines.append(f"{number} stopped")
            for name, view in world.views(number).items():
                lines.append(f"{number} {name} {view_text(view)}")
        return lines

    def _log(self, command: Command) -> list[str]:
        """`log 101 [partition=t-0]`: the batches in its files."""
        number = command.number(0, "node")
        name = self._partition(command)[0]
        return [f"{number} {name} {batch_text(each)}" for each in self.world.stored(number, name)]

    def _file(self, command: Command) -> list[str]:
        """`file 101 t-0/leader-epoch-checkpoint`: the lines of a text file."""
        number, path = command.number(0, "node"), command.argument(1, "path")
        content = self.world.node(number).vfs.written_content(f"{DATA}/{path}")
        if content is None:
            return [f"{number} has no {path}"]
        return [f"{number} {path}: {line}" for line in bytes(content).decode().splitlines()]

    def _files(self, command: Command) -> list[str]:
        """`files 101 t-0`: the names in a directory."""
        number, path = command.number(0, "node"), command.argument(1, "path")
        names = self.world.node(number).vfs.list(f"{DATA}/{path}")
        return [f"{number} {path}/{name}" for name in sorted(names)]

    def _leaders(self, command: Command) -> list[str]:
        """`leaders`: leader, epoch and ISR of every partition, as the controller has them."""
        assert command.name == "leaders", command.name
        return self.world.leaders()

    def _largest_batch(self, command: Command) -> list[str]:
        """`largest-batch`: records of the largest batch of metadata since the last time."""
        assert command.name == "largest-batch", command.name
        return [f"largest batch of metadata: {self.world.largest_batch()} records"]


def _keys(command: Command) -> dict[str, str]:
    """The options whose names have a dot: keys of Kafka's configuration."""
    names = [name for name in command.options if "." in name]
    return {name: command.option(name, "") for name in names}
