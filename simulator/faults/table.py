"""Table of the functions that carry out each kind of fault."""

from typing import Final

from simulator.faults import disks, leadership, network, processes
from simulator.faults.fault import CarryingOut
from simulator.faults.kinds import KINDS

FAULTS: Final[dict[str, CarryingOut]] = {
    "kill": processes.kill,
    "power_failure": processes.power_failure,
    "pause": processes.pause,
    "partition": network.partition,
    "one_way": network.one_way,
    "clog": network.clog,
    "reset": network.reset,
    "crash_at_operation": processes.crash_at_operation,
    "all_down": processes.all_down,
    "terminate": processes.terminate,
    "slow_disk": disks.slow_disk,
    "sync_error": disks.sync_error,
    "disk_full": disks.disk_full,
    "clock_jump": processes.clock_jump,
    "old_quorum_state": disks.old_quorum_state,
    "bit_rot": disks.damage,
    "lost_write": disks.damage,
    "misdirected_write": disks.damage,
    "depose_leader": network.depose_leader,
    "empty_disk": disks.empty_disk,
    "out_of_memory": processes.out_of_memory,
    "read_error": disks.read_error,
    "swizzle": network.swizzle,
    "lost_messages": network.lost_messages,
    "full_link": network.full_link,
    "write_error": disks.write_error,
    "restart_storm": processes.restart_storm,
    "crash_at_start": processes.crash_at_start,
    "client_links": network.client_links,
    "uneven_links": network.uneven_links,
    "start_read_error": disks.start_read_error,
    "kill_at_operation": processes.kill_at_operation,
    "lasting_disk_fault": disks.lasting_disk_fault,
    "wiped_voter": disks.wiped_voter,
    "transfer": leadership.transfer,
    "stop_leader": processes.stop_leader,
    "fsync_lie": disks.fsync_lie,
}
"""Kind -> function, apart from `KINDS`: these functions load the kernel; the command line, which
reads the kinds for its help and its refusals, may load nothing heavy (tests/cli/test_startup.py).
The assertion ties the two tables to each other."""
assert FAULTS.keys() == KINDS.keys(), "each kind is carried out by something"
