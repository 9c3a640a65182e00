"""Bodies of requests and responses: bytes to and from values, in every version that is served.

`codec` is the general way, by kio's schemas; `record_requests` makes bodies that clients of
records send; the others are straight-line code for APIs whose cost
is felt: Produce, the three kinds of Fetch, ApiVersions, CreateTopics. `body_walk` checks bytes
first. Not in it: who answers them (kernel/, broker/), frames and headers (wire/connections).
"""
