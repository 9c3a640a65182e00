"""Serving of requests that arrive on the listeners of this node.

In it: the table of APIs by listener, authorization, forwarding to the active controller, requests
that a broker answers itself. Entry: `dispatch.Dispatch.serve(client, request, answered)`.
Not in it: bytes and connections (network/), decisions (quorum_controller/).
"""
