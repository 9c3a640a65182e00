"""Joining and leaving the cluster: registrations, heartbeats, shutdown, ties to the records.

In it: the life cycle of a broker, the registration of a controller, the link to the active
controller, and what follows the image of a broker: the exchange with the records that are served
beside it. A kernel without a port to records, which only the simulator of metadata runs, has
partition directories and a rule for in-sync replicas instead.
Not in it: the decisions of the active controller (quorum_controller/brokers).
"""
