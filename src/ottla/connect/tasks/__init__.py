"""The running of one task: records from a connector into topics or back, with converters, errors and offsets."""
