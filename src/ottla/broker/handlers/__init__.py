"""One story per API: `async def handle(call, request) -> response`, top to bottom on one screen."""
