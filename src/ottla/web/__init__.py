"""HTTP for all that ottla serves by it: one server, its routes, its errors as JSON. Asks nobody who they are."""
