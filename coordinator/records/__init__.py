"""Records of the coordinators' topics, each declared once.

- `group`, `consumer`, `transaction`, `share`: one frozen Struct per key and per value;
- `kinds`: the types of keys of a topic with their values; `codec.encode(record)` and
  `decode(kinds, key, value)`, `json_form`: what Kafka's dump tool prints;
- `schema`, `codec_source`: declaration of layouts, and the readers and writers made of them.

Not in it: the meaning of a record (coordinator/group, coordinator/transaction).
"""
