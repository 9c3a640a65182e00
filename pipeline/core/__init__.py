"""The pipeline without Spark: bytes of segments in, Arrow record batches and findings out."""
