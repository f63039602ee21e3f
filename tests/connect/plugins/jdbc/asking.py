"""Statements for a database, and what tests look at in records."""

from sqlalchemy import text

from ottla.connect.plugins.jdbc.database import engine_of


class Kept:
    def __init__(self, offsets=()):
        self.offsets = list(offsets)

    async def read(self, partitions):
        return [next((offset for where, offset in self.offsets if where == each), None) for each in partitions]


def ask(url, *statements):
    engine = engine_of({"connection.url": url, "connection.user": None, "connection.password": None})
    with engine.begin() as connection:
        for each in statements:
            connection.execute(text(each))
    engine.dispose()


def ids(records):
    return [each.value.get("id") for each in records]
