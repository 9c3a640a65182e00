"""Tools of benchmarks.records_scale: the script that starts ours, the end of a process."""

import signal
import subprocess
import sys

from benchmarks.clusters.our_quorum import SCRIPT
from benchmarks.records_scale import end


def test_our_clusters_are_started_by_the_script() -> None:
    assert SCRIPT.is_file()


def test_a_process_that_nobody_waited_for_has_ended() -> None:
    with subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE) as child:
        assert child.poll() is None
        assert 0 <= end(child.pid, signal.SIGKILL) < 60
        assert child.wait() == -signal.SIGKILL
