"""This broker among the others: the metadata log followed and written, the lease, its peers, deaths and departures."""
