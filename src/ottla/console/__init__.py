"""A console of any Kafka cluster in the browser: pages made here, over the client alone; what changes asks once."""
