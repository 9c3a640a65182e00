"""The process: configuration, sockets, tasks, the asyncio driver."""
