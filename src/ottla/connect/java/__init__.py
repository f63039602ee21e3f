"""Java's ways with dates, regular expressions and text, which configurations and messages of Connect rely on."""
