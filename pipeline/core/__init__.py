"""Core of the pipeline, without Spark: bytes of segments to Arrow record batches and findings."""
