"""The `ottla` program: its own commands, and Kafka's command-line tools by their own names and flags."""
