"""Change capture: the rows of a database's tables, then each change of them, by Debezium's names and in its form."""
