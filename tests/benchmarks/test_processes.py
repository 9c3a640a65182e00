"""Processes that the benchmarks measure."""

import os
import socket
import threading

import pytest

from benchmarks.clusters.processes import listener_pid


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
