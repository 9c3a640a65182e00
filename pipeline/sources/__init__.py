"""Spark's format `kraft-log`: thin wrappers of `pipeline.core`."""
