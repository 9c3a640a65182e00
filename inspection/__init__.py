"""Inspection of a node: pure views of its state, and the HTTP API that serves them.

`routes`: a route is one declaration (parameters, handler, its part of `/openapi.json`).
`inspected`: the kernel as the API reads it. `views`, `resources`: image to values, pure.
`history`: time travel. `stream`: the committed log as it grows. `metrics`, `recorder`, `timings`:
Prometheus. `static`: the page.
`server` bounds connections, headers, bodies and slow clients; node/http.py loads it at the first
connection. The package only reads: nothing here changes a node.
"""
