"""The simulated world: machines, disks, network, time, clients.

In it: what a healthy cluster needs to run under virtual time.
Not in it: faults (faults/), judgements (checks/), seeds and runs (campaign/).
"""
