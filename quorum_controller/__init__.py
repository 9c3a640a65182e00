"""Requests to records: every decision of the active controller, as pure functions of the image.

Interface:
- `controller.Controller`: `activate`, `submit(ControllerRequest, ...) -> Output(proposals,
  answers)`, `commit(high_watermark)`, `resign(error)`, `tick`, `next_deadline_ms`. State is the
  committed image, pending images and soft state of sessions; a proposal carries the image after its
  records.
- `handlers.HANDLERS`: API key -> handler (returns `HandlerResult` or `ApiError`) and refusal;
  `queries.QUERIES`: the APIs that only read an image. The APIs that listeners serve and that an
  Envelope may carry are derived from both.
- `result.Draft`: `emit(record)` appends and applies at once; `draft.image` is current.
- Packages: topics, partitions, brokers, security, configs. A new API is a manager in one of them
  and one row in a table.

Not in it: raft (proposals are values), sockets, disks, clocks (`now_ms` and `wall_ms` are
arguments).
"""
