"""Connect's REST interface: requests in, decisions of the machine asked for, Kafka's answers out."""
