"""Connections of clients: frames to calls or to the kernel, answers in order, quotas, metrics.

`front` has the connections, `call` one request for a handler, `client_quotas` and `throttling`
what it costs its client. Not in it: what requests mean (broker/apis).
"""
