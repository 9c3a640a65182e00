"""The error of a broken invariant."""


class Violation(Exception):  # noqa: N818 - the field's word for a broken invariant
    """An invariant does not hold."""

    def __init__(self, invariant: str, text: str) -> None:
        super().__init__(f"{invariant}: {text}")
        self.invariant = invariant
