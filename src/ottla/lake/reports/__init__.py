"""A load as others see it: lag, counts, markers, metrics."""
