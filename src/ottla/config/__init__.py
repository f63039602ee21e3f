"""Every option, declared once, and how its value is found: defaults, file, environment, command line, dynamic."""
