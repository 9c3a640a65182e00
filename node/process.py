"""The composition root: configuration, log directories, kernel, listeners, signals, event loop."""

import asyncio
import errno
import gc
import os
import random
import re
import resource
import signal
import sys
import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

from broker.broker import Broker
from broker.faulty_broker import FaultyBroker
from inspection.recorder import Recorder
from inspection.running_node import RunningNode
from kernel.config import NodeConfig
from kernel.effects import Exit, Log, LogLevel
from kernel.events import ShutdownRequested
from kernel.formatting import FormatError
from kernel.kernel import Kernel
from kernel.kraft_version import UnsupportedFeatureError
from kernel.port import RecordsPort
from metadata.config_schema import broker_configs
from network.clock import Now
from node.clocks import now
from node.configs.config import inspection_limits
from node.configs.config_keys import OLDER_KEYS
from node.configs.environment import CLUSTER_ID, DEFAULT_CLUSTER_ID
from node.configs.records_config import records_config
from node.configs.sources import configuration
from node.driver import LISTEN_BACKLOG, Driver
from node.errors import ConfigError, StartError, one_line
from node.http import HttpListener
from node.identity import Identity, InitialVoters, prepare
from node.leader_client import LeaderClient
from node.local_client import LocalClient
from node.logs import write_log
from node.measuring import measured_decoding
from node.records.broker_side import BrokerSide
from node.records.cleaner_sessions import CleanerProcesses
from node.records.fault_door import FaultDoor
from node.records.records_reader import RecordsReader
from node.records.writeback import system_start, vfs_with_writeback
from storage.errors import (
    CorruptFileError,
    CorruptLogError,
    FsyncError,
    LockedDirectoryError,
    OutOfSpaceError,
)
from storage.log_dir.clean_shutdown_file import CleanShutdownFiles
from storage.os_vfs import OsVfs
from wire.messages import codec
from wire.random_ids import random_uuid
from wire.types import Endpoint

REFUSALS = (
    ConfigError,
    StartError,
    FormatError,
    LockedDirectoryError,
    CorruptFileError,
    CorruptLogError,
    OutOfSpaceError,
    FsyncError,
    UnsupportedFeatureError,
)
"""Errors that stop a start with one line for the operator, without stack."""


PRELOADED = (54, 53, 52, 63, 62, 19, 20, 58, 59, 55, 60, 3, 70, 56, 73)
"""APIs whose schemas are loaded while the node idles, those of a failover first: a first use costs
5 to 10 ms, which a new leader would add to the time without one, and a broker's first change of an
ISR or of a log directory to a turn of its records."""
SWITCH_INTERVAL_S = 0.001
"""Longest that one of two threads with Python to run keeps the other waiting, about. Python's 5 ms
would hold up a step of Raft behind a long turn of the records. Much less does harm: a thread that
waits wakes at each interval, and where other work fills the cores each time waits for one of them
(docs/decisions/0020-switch-interval.md)."""
PRELOAD_AFTER_S = 1.0
PRELOAD_PAUSE_S = 0.05
WITHOUT_EFFECT = "configuration_without_effect"
UNKNOWN = "unknown_configuration"
"""Log event for a key that is misspelt, or of a Kafka plugin."""
LISTENER_PREFIX = re.compile(r"listener\.name\.[^.]+\.")
"""Prefix of a Kafka key that is set for one listener."""


def run_node(
    properties: Path | None,
    overrides: Sequence[str],
    format_cluster_id: str | None,
    *,
    environment: bool = False,
    door: FaultDoor | None = None,
    initial_voters: InitialVoters | None = None,
) -> int:
    """Run one node in this process; return its exit code."""
    try:
        config = configuration(
            properties, overrides, os.environ, is_environment_stronger=environment
        )
        if properties is None and format_cluster_id is None:
            format_cluster_id = asked_cluster_id(os.environ)
        recorder = Recorder(time.monotonic_ns())
        identity, kernel, broker = _open(config, format_cluster_id, recorder, door, initial_voters)
    except REFUSALS as refusal:
        sys.stderr.write(f"{refusal}\n")
        return 1
    for line in key_warnings(config.unknown_keys):
        write_log(line)
    _raise_file_limit()
    keep_loaded_objects()
    assert identity.locks, "the folders stay locked while the node runs"
    if broker is not None:
        sys.setswitchinterval(SWITCH_INTERVAL_S)
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(_serve(config, kernel, recorder, broker, door))


def keep_loaded_objects() -> None:
    """Exclude all objects there are from every later collection, and collect rarely from now on."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 20, 50)
    gc.enable()


def asked_cluster_id(environment: Mapping[str, str]) -> str:
    """Return CLUSTER_ID or its default; empty, as compose sets a missing variable, is unset."""
    return environment.get(CLUSTER_ID) or DEFAULT_CLUSTER_ID


def key_warnings(keys: Collection[str]) -> list[Log]:
    """Return a log line with the given Kafka keys without effect, and one with unknown keys."""
    without_effect = [key for key in keys if _is_kafkas(key)]
    unknown = [key for key in keys if not _is_kafkas(key)]
    return [
        Log(LogLevel.WARN, event, {"keys": named})
        for event, named in ((WITHOUT_EFFECT, without_effect), (UNKNOWN, unknown))
        if named
    ]


def _is_kafkas(key: str) -> bool:
    return LISTENER_PREFIX.sub("", key) in broker_configs() or key in OLDER_KEYS


def _open(
    config: NodeConfig,
    format_cluster_id: str | None,
    recorder: Recorder,
    door: FaultDoor | None = None,
    initial_voters: InitialVoters | None = None,
) -> tuple[Identity, Kernel, Broker | None]:
    """Lock and check the log directories; open the kernel, and the records of a broker.

    Raises:
        StartError: a directory cannot be created, read or written; names the path. Other errors of
            `prepare` and the kernel are in REFUSALS.
    """
    vfs = OsVfs()
    rng = _new_rng()
    at = now()
    try:
        new_uuid = partial(random_uuid, rng)
        identity = prepare(vfs, config, format_cluster_id, new_uuid, at.wall_ms, initial_voters)
        guards = {path: threading.Lock() for path in config.log_dirs}
        broker = _open_records(config, identity, at, guards, door) if config.is_broker else None
        kernel = Kernel(
            config,
            vfs,
            rng,
            cluster_id=identity.cluster_id,
            directory_ids=identity.directory_ids,
            now=at,
            decoding=measured_decoding(recorder),
            port=None
            if broker is None
            else RecordsPort(broker.apis, guards.get(config.metadata_log_dir)),
        )
    except OSError as error:
        where = ", ".join(config.log_dirs) if error.filename is None else error.filename
        raise StartError(one_line(f"{where}: {error.strerror or error}")) from error
    return identity, kernel, broker


def _open_records(
    config: NodeConfig,
    identity: Identity,
    at: Now,
    guards: Mapping[str, AbstractContextManager[object]],
    door: FaultDoor | None = None,
) -> Broker:
    """Make the records of a broker; each of the two values of a node has its own randomness."""
    vfs = vfs_with_writeback(system_start())
    kind = Broker if door is None else partial(FaultyBroker, door.faults)
    return kind(
        records_config(config, identity.directory_ids),
        vfs,
        _new_rng(),
        now=at,
        clean_log_dirs=CleanShutdownFiles(vfs, config.log_dirs).found_in,
        guards=guards,
        open_session=CleanerProcesses().open,
        nanoseconds=time.perf_counter_ns,
    )


def _new_rng() -> random.Random:
    return random.Random(random.SystemRandom().getrandbits(64))  # noqa: S311 - no secrets here


def _loop_factory() -> type[asyncio.AbstractEventLoop]:
    try:
        import uvloop  # noqa: PLC0415 - not on Windows
    except ImportError:
        return asyncio.SelectorEventLoop
    return uvloop.Loop


async def _serve(
    config: NodeConfig,
    kernel: Kernel,
    recorder: Recorder,
    broker: Broker | None = None,
    door: FaultDoor | None = None,
) -> int:
    """Run the node until it exits: listeners, inspection API, driver; return the exit code."""
    loop = asyncio.get_running_loop()
    side = None if broker is None else _broker_side(broker, loop)
    driver = Driver(kernel, loop, recorder, None if side is None else side.end)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, lambda: driver.post(ShutdownRequested()))
    try:
        servers = await _listen_all(config, driver, side)
        http = _http(config, kernel, driver, _records_reader(broker, side, loop))
    except StartError as refusal:
        sys.stderr.write(f"{refusal}\n")
        if side is not None:
            side.close()
        driver.close()
        return 1
    if http is not None:
        http.start()
    write_log(Log(LogLevel.INFO, "started", _identity_fields(config, kernel)))
    driver.start()
    if side is not None:
        _start_records(side, driver, door)
    loop.call_later(PRELOAD_AFTER_S, _preload, loop, iter(PRELOADED))
    ended: Exit = await driver.exit
    for server in servers:
        server.close()
    if http is not None:
        await http.close()
    if side is not None:
        side.close()
    driver.close()
    if ended.code == 0:
        kernel.close()
    write_log(Log(LogLevel.INFO, "stopped", {"exit_code": ended.code, "reason": ended.reason}))
    return ended.code


def _start_records(side: BrokerSide, driver: Driver, door: FaultDoor | None) -> None:
    side.start(driver)
    if door is not None:
        door.start(asyncio.get_running_loop(), side.run)


def _broker_side(broker: Broker, loop: asyncio.AbstractEventLoop) -> BrokerSide:
    return BrokerSide(
        broker,
        loop,
        _loop_factory()(),
        frame_bytes_max=broker.config.request_bytes_max,
        pool=broker.memory,
    )


def _identity_fields(config: NodeConfig, kernel: Kernel) -> dict[str, object]:
    """Return the fields of a node's first log line: identity and listeners."""
    roles = {"broker": config.is_broker, "controller": config.is_controller}
    return {
        "node_id": config.node_id,
        "roles": [name for name, is_held in roles.items() if is_held],
        "cluster_id": kernel.cluster_id,
        "listeners": [f"{at.listener}://{at.host}:{at.port}" for at in config.listeners],
        "log_end_offset": kernel.core.log_end_offset,
    }


def _records_reader(
    broker: Broker | None, side: BrokerSide | None, loop: asyncio.AbstractEventLoop
) -> RecordsReader | None:
    return (
        None
        if broker is None or side is None
        else RecordsReader(broker, loop, side.run, side.longest_turn, side.use)
    )


def _http(
    config: NodeConfig, kernel: Kernel, driver: Driver, records: RecordsReader | None
) -> HttpListener | None:
    """Make the listener of the inspection API; None if it is not configured."""
    if config.inspection_listener is None:
        return None
    if config.broker_listeners:
        ask = LocalClient(driver, config.broker_listeners[0].listener).ask
    else:
        ask = LeaderClient(partial(_leader_address, kernel)).ask
    confirm = driver.reads.confirm
    node = RunningNode(kernel, now, ask, driver.recorder, records, confirm_read=confirm)
    limits = inspection_limits(dict(config.properties))
    return HttpListener(node, config.inspection_listener, limits)


def _leader_address(kernel: Kernel) -> tuple[str, int] | None:
    """Return the address of the leader's controller listener; None without a known leader."""
    return kernel.core.leader_address


def _preload(loop: asyncio.AbstractEventLoop, api_keys: Iterator[int]) -> None:
    """Load one schema, and schedule the next one after a pause."""
    api_key = next(api_keys, None)
    if api_key is not None:
        codec.preload(api_key)
        loop.call_later(PRELOAD_PAUSE_S, _preload, loop, api_keys)


async def _listen_all(
    config: NodeConfig, driver: Driver, side: BrokerSide | None
) -> list[asyncio.Server]:
    """Bind every listener; the servers of those whose connections the kernel's driver accepts.

    Raises:
        StartError: one cannot be bound; the others are closed, as uvloop's loop would not close.
    """
    servers: list[asyncio.Server] = []
    try:
        for listener in config.controller_listeners:
            server = await _listen(driver, listener)
            servers.append(server)
        if side is not None:
            _bind(side, config.broker_listeners)
    except StartError:
        for server in servers:
            server.close()
        raise
    return servers


def _bind(side: BrokerSide, listeners: Sequence[Endpoint]) -> None:
    for listener in listeners:
        try:
            side.listen(listener)
        except OSError as error:
            raise _not_bound(listener, error) from error


async def _listen(driver: Driver, listener: Endpoint) -> asyncio.Server:
    try:
        return await asyncio.get_running_loop().create_server(
            partial(driver.accept, listener.listener),
            listener.host or None,
            listener.port,
            backlog=LISTEN_BACKLOG,
        )
    except OSError as error:
        raise _not_bound(listener, error) from error


def _not_bound(listener: Endpoint, error: OSError) -> StartError:
    taken = error.errno == errno.EADDRINUSE
    reason = "is taken by another process" if taken else f"cannot be opened: {error.strerror}"
    where = f"{listener.host or '*'}:{listener.port}"
    return StartError(f"listener {listener.listener}: {where} {reason}")


def _raise_file_limit() -> None:
    """Raise the soft limit of open files to the hard one, for log segments and clients."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
