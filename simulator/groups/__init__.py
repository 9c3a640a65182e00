"""Consumers in groups of both protocols: what they ask, what they are given, what they read.

`classic_member` and `consumer_member` are the members as sans-I/O machines: a request out, its
answer in, and what is to be done next. `group_consumer` drives one over the virtual network, reads
the partitions that it owns (`reader`) and commits. `workload` draws groups and their members, lets
these join, leave, die and pause, and moves coordinators; checks/partitions/groups.py judges it all.
"""
