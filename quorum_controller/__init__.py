"""Requests to records: every decision of the active controller, as pure functions of the image.

Interface:
- `controller.Controller`: `activate`, `submit(ControllerRequest, ...) -> Output(proposals,
  answers)`, `commit(high_watermark)`, `resign(error)`, `tick`, `next_deadline_ms`. State is the
  committed image, pending images and soft state of sessions; a proposal carries the image that it
  leads to.
- `handlers.HANDLERS`: API key -> how it is answered (`HandlerResult` or `ApiError`) and refused;
  `queries.QUERIES`: what only reads an image. What listeners serve and what an Envelope may carry
  derives from both.
- `result.Draft`: `emit(record)` appends and applies at once; `draft.image` is current.
- Rooms: topics, partitions, brokers, security, configs. A new API is a manager in its room and
  one row.

Not in it: raft (proposals are values), sockets, disks, clocks (`now_ms` and `wall_ms` are
arguments).
"""
