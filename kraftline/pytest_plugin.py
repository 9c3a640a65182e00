"""The plugin of pytest by one name in both layouts, which the entry point `pytest11` has."""

pytest_plugins = ["testing.plugin"]
