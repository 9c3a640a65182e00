"""Groups and transactions, measured beside Kafka: one module for each thing that is measured.

`groups` and `transactions` are the programs, `session` is the client of both: whole frames over
asyncio, most of them encoded before they are measured, so that a hundred members cost the servers'
cores as little as they can. `classic_member` and `consumer_member` speak the two protocols.
"""
