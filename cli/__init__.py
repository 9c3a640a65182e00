"""Commands for people, each a module with `run(arguments, connect=open_cluster) -> exit code`.

`main` imports the module of a command; `command` parses, connects, performs, prints;
`connect.Api` is the interface of commands to a cluster (tests pass one that answers from an image
of a recorded log).
Rooms: `admin` (commands to a running cluster, as Kafka's tools), `offline` (commands about files).
Here: storage, server, completion, jepsen, sim. The protocol is imported at the first connection,
so that help needs argparse alone.
"""
