"""Requests on their way in and answers on their way out: dispatch, refusals, what may be written, who waits."""
