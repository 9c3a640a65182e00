"""What the metadata log means: records, the image they build, deltas, snapshots."""
