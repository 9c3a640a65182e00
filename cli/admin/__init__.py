"""Commands to a running cluster, each with the flags, output lines and exit codes of Kafka's tool.

In it: topics, configs, acls, quotas, reassign, leader-election, features, quorum, cluster.
Not in it: connection and parsing of commands (cli/command, cli/connect, cli/arguments).
"""
