"""Joining and leaving the cluster: registrations, heartbeats, shutdown, partition directories.

In it: the life cycle of a broker, the registration of a controller, the link to the active
controller, partition directories and in-sync replicas that follow the image.
Not in it: the decisions of the active controller (quorum_controller/brokers).
"""
