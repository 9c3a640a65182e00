"""Scenarios of the quorum controller."""

from simulator.scenario_command import Command


class ControllerScenario:
    """The environment of tests/scenarios/controller."""

    def run(self, command: Command) -> list[str]:
        """Perform one command."""
        return [command.name]
