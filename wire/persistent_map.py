"""`Map`: the persistent map of images, of the package that has one for this Python.

Up to Python 3.13 it is that of immutables, a hash array mapped trie in C. It has no wheel for later
ones, where an installation would need a compiler: there `Map` is `TrieMap`, over the trie of
rpds-py (docs/decisions/0025-one-package-in-the-wheel.md).
"""

import sys

if sys.version_info >= (3, 14):
    from wire.trie_map import TrieMap as Map
else:
    from immutables import Map

__all__ = ["Map"]
