"""Requests to records: every decision of the active controller, as pure functions of the image."""
