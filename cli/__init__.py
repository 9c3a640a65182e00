"""Commands for people: each a module with `run(arguments, connect=open_cluster) -> exit code`.

`main` finds the module of a command; `command` parses, connects, performs, prints; `connect.Api`
is all that a command needs of a cluster (tests pass one that answers from an image of a recorded
log).
Rooms: `admin` (to a running cluster, as Kafka's tools), `offline` (about files). Here: storage,
server, completion, jepsen, sim. The protocol is imported at the first connection, so that help
costs argparse alone.
"""
