"""The ways to the brokers, without sockets: what stories wish, how they find a leader, bytes of one partition."""
