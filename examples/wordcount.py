"""Counts the words of the topic word-lines, as Kafka's WordCountDemo does.

ottla streams run examples/wordcount.py --application-id wordcount
"""

from ottla.streams import TEXT, StreamsBuilder


def topology():
    builder = StreamsBuilder(value=TEXT)
    words = builder.stream("word-lines").flat_map_values(lambda line: line.lower().split())
    counts = words.group_by(lambda _, word: word).count(store="counts")
    counts.to_stream().map_values(str).to("word-counts", value=TEXT)
    return builder.build()
