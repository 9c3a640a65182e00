"""Configs and quotas: which there are, which values they may have, how they are changed and shown.

In it: AlterConfigs and DescribeConfigs of every resource, client quotas.
Not in it: definitions and parsing (metadata/config_schema, metadata/config_values).
"""
