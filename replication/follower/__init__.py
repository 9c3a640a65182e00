"""A partition at a follower: what is fetched from which leader, appended, and truncated.

`fetchers` shares partitions among fetchers, `fetcher` is one of them with its session,
`following` the partition. Bytes of Fetch: wire/messages/replica_fetch.
"""
