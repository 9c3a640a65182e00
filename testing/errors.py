"""Errors of clusters for tests, as a test sees them."""


class ClusterError(RuntimeError):
    """A cluster that did not come up, or that cannot do what it is asked; the text says why."""


class WarmError(ClusterError):
    """The warm process refused a request, or is gone."""


class RefusedError(RuntimeError):
    """Nodes cannot do it, or did not in time; one line, raised in the warm process."""
