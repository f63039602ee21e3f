"""The JDBC source and sink under Confluent's names and options, over SQLAlchemy instead of Java's drivers."""
