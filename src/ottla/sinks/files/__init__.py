"""The S3 and the HDFS sink: records of a topic become files, with Confluent's options, folders and names."""
