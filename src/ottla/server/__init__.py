"""The shell around a broker: sockets, threads, signals, time. Nothing is decided here."""
