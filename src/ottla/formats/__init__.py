"""Values of records as Arrow columns and back: Avro, Protobuf, JSON with a schema, text and bytes.

Pure: no sockets and no files. The caller says how a schema is found by its id; decoder.py and encoder.py are the doors.
"""
