"""Joining and leaving the cluster: registrations, heartbeats, shutdown, partition directories.

In it: the life cycle of a broker, the registration of a controller, the link to the active
controller, and what follows the image of a broker: partition directories and in-sync replicas of a
node that keeps metadata only, else the exchange with the records that are served beside it.
Not in it: the decisions of the active controller (quorum_controller/brokers).
"""
