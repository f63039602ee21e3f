"""Mail as records: one message with its parts, and the IMAP source."""
