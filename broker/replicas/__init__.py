"""The replicas of a broker, as images say: logs are loaded, made, moved, looked after, closed.

`local_replicas` carries out images (`image_queue`: in slices), `replica_moves` moves logs between
directories, `upkeep` is what is done regularly. Not in it: leaders, ISR, fetches (replication/).
"""
