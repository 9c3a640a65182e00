"""The meaning of the metadata log: records, the image that they build, deltas, snapshots.

Interface:
- `records`: one frozen Struct per record, Kafka's names in snake_case, UUIDs as 16 bytes, None =
  null; `record_codec.encode(record, version)`, `decode(bytes)`; unknown records and tags are
  kept.
- `image.Image`: all metadata at one offset, persistent maps; `apply.apply(image, record, offset,
  delta)` is the only meaning of a record; `delta.MetadataDelta` is sets of ids, never values.
- `loader.Loader`: THE committed image of a node: `commit(batches)`, `adopt(image, delta)`,
  snapshots, metadata transactions. `snapshot`: an image as records in fixed order; `time_travel`:
  an image of the past.
- `features`: metadata.version and the other features, which record version a level allows.
- `config_schema`, `config_values`, `node_configs`: definitions, values and layers of all configs.

Not in it: validation of changes (quorum_controller/), the source of records (kernel/quorum).
"""
