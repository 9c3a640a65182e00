"""How this node joins and leaves the cluster: registrations, heartbeats, shutdown, folders.

In it: the life cycle of a broker, the registration of a controller, the way to the active
controller, partition folders and in-sync replicas that follow the image.
Not in it: what the active controller decides of it (quorum_controller/brokers).
"""
