"""Server-side assignors: the target assignment of a group, as Kafka's make it.

- `spec`: what an assignor is given, and the names of those that exist;
- `uniform`: balanced and sticky, for members with one subscription; `heterogeneous`: for others,
  with `balancer`;
- `range_assignor`: consecutive partitions of each topic, the same ones of each if they can.

Not in it: epochs and records (coordinator/group/consumer/targets).
"""
