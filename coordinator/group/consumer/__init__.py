"""Groups of KIP-848: the coordinator assigns, members heartbeat and go step by step.

- `member`, `group`: a member and a group as values, with what follows from their records;
  `draft`: the one meaning of each record, for what is decided and what is loaded;
- `heartbeat`, `membership`, `leaving`: decisions on requests; `reconciliation`: a member's next
  step; `targets` and the room `assignors`: what members shall have; `epochs`, `metadata_hash`: when
  that is asked anew; `regexes`: topics that match an expression; `tombstones`;
- `offsets`: whether a member may commit and fetch; `settings`, `requests`, `responses`.

Decisions are functions of a group, a request and what surrounds them (`heartbeat.Surroundings`).
Not in it: classic groups, offsets themselves, the image of all groups (coordinator/group), who may
ask (broker/apis). (apache/kafka: group-coordinator/.../modern/consumer)
"""
