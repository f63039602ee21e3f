"""Change capture of MariaDB: its binary log as records in Debezium's envelope."""
