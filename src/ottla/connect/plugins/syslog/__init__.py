"""The syslog source: messages over UDP and TCP, by RFC 5424 and RFC 3164."""
