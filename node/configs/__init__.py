"""The configuration of a node: Kafka's `server.properties` and environment variables, as values.

Interface: `config.node_config(properties) -> NodeConfig`, `properties` for the file's format,
`environment` for the variables of a container. Not in it: dynamic configs (metadata, kernel).
"""
