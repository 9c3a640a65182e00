"""Commands to a running cluster, each with the flags, lines and exit codes of Kafka's tool.

In it: topics, configs, acls, quotas, reassign, leader-election, features, quorum, cluster.
Not in it: how a command connects and parses (cli/command, cli/connect, cli/arguments).
"""
