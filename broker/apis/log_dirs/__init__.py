"""Log directories of this broker: DescribeLogDirs and AlterReplicaLogDirs.

Not in it: the moves (broker/replicas), directories that the controller assigns.
"""
