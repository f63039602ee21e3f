"""The directory source: files of a watched directory become records, each file once."""
