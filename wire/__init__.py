"""Bytes to and from typed values of the Kafka protocol; no sockets, no logs.

Interface:
- `types`: ids, `OffsetAndEpoch`, `LeaderAndEpoch`, `ReplicaKey`, `Endpoint`, `Rng`. `ids`: None
  inside for the -1 and the zero UUID of the wire. `errors`: `ErrorCode` (kio's), `ApiError(code,
  message)`, `RemoteProtocolError`, `LocalProtocolError`, `CorruptBatchError`.
- `api_table`: `Api(key, name, min_version, max_version)`, `apis(listener_kind, served)`.
- `messages.codec`: `decode_request`, `encode_response`, `encode_request`, `decode_response`.
  Inside, a body has ONE shape, kio's newest class of that API; `codec` lifts older requests to it
  and lowers responses to the version asked. (A Fetch of the metadata partition is a
  `messages.fetch_messages` value, docs/decisions/0008.)
- `connections.connection.ServerConnection(apis, request_bytes_max)`: `feed`, `next_request`,
  `respond(slot, body)` in request order; `failure` is the reason to close after the answers still
  due. `connections.client_connection` is its peer.
- `batches.batch`: `encode_batch`, `encode_control_batch`, `iterate_batches`, `iterate_frames`,
  `Batch.records()`. `batches.legacy_batch.iterate_any`: also message sets of magic 0 and 1.
- `messages.produce`, `messages.fetch_request`, `messages.fetch_response`: bodies of the data plane
  as views and pieces, without copies.

Not in it: the meaning of requests (kernel/serving) and of records (metadata/).
"""

from wire.lean_classes import install

install()
