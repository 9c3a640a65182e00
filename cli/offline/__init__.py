"""Commands about files: they read log directories of nodes and need no cluster.

In it: dump-log, log verify, at, diff, and the readers that they share.
Not in it: formatting of folders (cli/storage), commands to a cluster (cli/admin).
"""
