"""Configs and quotas: validation, changes, description.

In it: AlterConfigs and DescribeConfigs of every resource, client quotas.
Not in it: definitions and parsing (metadata/config_schema, metadata/config_values).
"""
