"""Errors of clusters for tests, as a test sees them."""


class ClusterError(RuntimeError):
    """A cluster that did not come up, or that cannot do what it is asked; the text says why."""


class WarmError(ClusterError):
    """The warm process refused a request, or is gone."""


class RefusedError(RuntimeError):
    """What is asked of nodes cannot be, or did not come in time; in the warm process, one line."""
