"""Offsets of groups: decisions on what clients ask about them, and their expiry.

`requests` (what is asked, by topic name and id), `commits`, `fetches`, `deletions`, `expiry`. All
are functions of the image, the request and `rules.GroupRules`.

Not in it: names and ids of topics, permissions and Kafka's bodies (broker/apis/offsets).
(apache/kafka: group-coordinator/.../OffsetMetadataManager.java)
"""
