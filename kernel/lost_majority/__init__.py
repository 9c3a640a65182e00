"""Recovery of a quorum that lost its majority, on the folders of stopped nodes, ours or Kafka's.

In it: reading of a folder without a change of it, the steps that make its node the only voter, the
audit file by which an interrupted recovery is finished, a new cluster id for other folders.
Not in it: what is proven and the voters to write (raft/membership/lost_majority.py), the command
and its words (cli/offline/recover.py). docs/recovery.md is the operator's page.
"""
