"""The scene of change capture under kills, between two databases of a MariaDB."""

import pymysql
from tests.connect.mariadb_server import ask
from tests.connect.scenes_cdc import Pipeline

TABLE = """CREATE TABLE item (id int PRIMARY KEY, n int NOT NULL, small varchar(9), big longtext, at timestamp(6) NULL,
                             price decimal(10,2), raw varbinary(9), day date DEFAULT '2024-02-29',
                             local datetime(6) DEFAULT '2024-02-29 01:02:03.5', hour time(3) DEFAULT '-25:59:59.5',
                             huge bigint unsigned DEFAULT 18446744073709551615, kind enum('a','b') DEFAULT 'b',
                             tags set('x','y') DEFAULT 'x,y', since year DEFAULT 2001, small_float float DEFAULT 0.1,
                             wide double DEFAULT 0.1, ref uuid DEFAULT '0123abcd-4567-11ef-89ab-cdef01234567',
                             flag boolean DEFAULT true)"""


class MariaPipeline(Pipeline):
    """A standalone worker process with both connectors, between two databases of one MariaDB."""

    def source(self):
        """Capture one table by the binary log."""
        return {"connector.class": "MariaDbConnector", "database.user": "root", "database.server.id": 4711,
                "database.include.list": f"{self.name}_a", "table.include.list": rf"{self.name}_a\\.item",
                "bigint.unsigned.handling.mode": "precise"}  # fmt: skip

    def sink(self, server):
        """Write to the other database."""
        return {"connection.url": server.url(f"{self.name}_b"), "topics": f"{self.name}.{self.name}_a.item"}

    def ask(self, database, *statements):
        """The rows of the last statement."""
        return ask(database, *statements)

    def change(self, draw, count):
        """A transaction of inserts, updates, deletions and changed keys."""
        connection = pymysql.connect(**self.here)
        try:
            with connection.cursor() as cursor:
                for _ in range(count):
                    key, kind = draw.randrange(60), draw.random()
                    if kind < 0.4:
                        cursor.execute(
                            "INSERT INTO item (id, n, small, big, at, price, raw) VALUES "
                            "(%s, %s, 'ü', REPEAT(%s, 9000), NOW(6), 1.5, x'00ff') "
                            "ON DUPLICATE KEY UPDATE n = VALUES(n)", (key, draw.randrange(99), draw.choice("abc")),
                        )  # fmt: skip
                    elif kind < 0.7:
                        cursor.execute("UPDATE item SET n = n + 1, price = price + 0.01 WHERE id = %s", (key,))
                    elif kind < 0.8:
                        cursor.execute("UPDATE IGNORE item SET id = id + 100 WHERE id = %s", (key,))
                    else:
                        cursor.execute("DELETE FROM item WHERE id = %s", (key,))
            connection.commit()
        finally:
            connection.close()


def prepared(server, bootstrap, folder, name):
    """A pipeline between two new databases of a server; not started."""
    ask(server.database(), f"CREATE DATABASE {name}_a", f"CREATE DATABASE {name}_b")
    made = MariaPipeline(server, bootstrap, folder, name)
    for each in (made.here, made.there):
        ask(each, TABLE)
    return made


def removed(server, pipeline):
    """End the worker, and drop both databases."""
    if pipeline.process is not None and pipeline.process.poll() is None:
        pipeline.kill()
    for each in "ab":
        ask(server.database(), f"DROP DATABASE {pipeline.name}_{each}")
