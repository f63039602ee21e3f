"""`make streams-campaign`: topologies on Spark through kill -9, held to the engine."""
