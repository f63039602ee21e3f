"""The sink for Elasticsearch and OpenSearch: records become documents of an index."""
