"""This broker among the others: its incarnation, its peers, deaths and departures."""
