"""Commands about groups of consumers, with the flags, lines and exit codes of Kafka's tools.

- `consumer_groups`: `kraftline groups` (kafka-consumer-groups), with `options`, `describing`,
  `resetting`, `reset_places`, `deleting`; `tables` has its lines;
- `all_groups`: `kraftline all-groups` (kafka-groups);
- `verifiable_consumer`, with `verifying`: `kraftline verifiable-consumer`;
- `clients`: requests to the coordinators of groups; `membership`: a member of a group.
"""
