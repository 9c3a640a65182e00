"""Jobs, each a module with `add_arguments(parser)` and `run(config) -> JobResult`."""
