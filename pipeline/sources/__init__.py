"""The format `kraft-log` of Spark: thin wrappers round `pipeline.core`."""
