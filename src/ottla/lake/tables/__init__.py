"""Table formats: Delta and Iceberg. Plain Parquet needs none of this: there a file's name makes it visible."""
