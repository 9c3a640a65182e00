"""Blocking clients of the records tools: metadata, producer, fetcher, offsets.

`records_api` is their interface to a cluster; time comes as an argument (`clock`).
"""
