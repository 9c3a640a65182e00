"""Requests that listeners of this node take: which are served, to whom, and by what.

In it: the table of APIs by listener, authorization, forwarding to the active controller, what a
broker answers itself. Entry: `dispatch.Dispatch.serve(client, request, answered)`.
Not in it: bytes and connections (network/), decisions (quorum_controller/).
"""
