"""The races: this broker beside Apache Kafka, in one run on one machine."""
