"""Processes that the benchmarks measure."""

import os
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from benchmarks.clusters.processes import listener_pid, waited_seconds


def test_a_listener_is_found_while_its_process_opens_and_closes_files() -> None:
    over = threading.Event()

    def open_and_close() -> None:
        while not over.is_set():
            for descriptor in [os.open(os.devnull, os.O_RDONLY) for _ in range(20)]:
                os.close(descriptor)

    busy = threading.Thread(target=open_and_close)
    with socket.create_server(("127.0.0.1", 0)) as server:
        busy.start()
        try:
            address = f"127.0.0.1:{server.getsockname()[1]}"
            assert {listener_pid(address) for _ in range(5)} == {os.getpid()}
        finally:
            over.set()
            busy.join()


def test_a_port_on_which_nobody_listens_has_no_process() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
    with pytest.raises(ProcessLookupError):
        listener_pid(address)


def test_waits_for_a_core_are_those_of_the_calling_thread() -> None:
    def measure() -> tuple[int, int, int]:
        file = Path(f"/proc/self/task/{threading.get_native_id()}/schedstat")
        before_ns = int(file.read_text().split()[1])
        waited_s = waited_seconds()
        return before_ns, round(waited_s * 1e9), int(file.read_text().split()[1])

    with ThreadPoolExecutor(1) as thread:
        before_ns, waited_ns, after_ns = thread.submit(measure).result()
    assert before_ns <= waited_ns <= after_ns
