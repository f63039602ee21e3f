"""The ways to the brokers, without sockets: wishes of stories, how they find a leader, bytes of one partition."""
