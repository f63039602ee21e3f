"""The ways to the brokers, without sockets: effects of stories, how they find a leader, bytes of one partition."""
