"""Both sides of one connection as values: frames, headers, order of responses. No sockets.

`connection` is the server's side, `client_connection` the client's, `follower_connection` that of a
follower; `framing`, `headers` and `reply_slots` are their parts.
"""
