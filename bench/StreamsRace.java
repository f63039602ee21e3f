// Runs one of the race's topologies by Kafka Streams, exactly once and without a cache, until it is stopped.
// java -cp 'LIBS/*' bench/StreamsRace.java NAME BOOTSTRAP APPLICATION_ID STATE_DIR THREADS OUT [NAME=TOPIC ...]

import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.TimeWindows;

public class StreamsRace {
    public static void main(String[] given) {
        Map<String, String> topics = new HashMap<>();
        for (int at = 6; at < given.length; at++) {
            String[] pair = given[at].split("=");
            topics.put(pair[0], pair[1]);
        }
        StreamsBuilder builder = new StreamsBuilder();
        build(given[0], builder, topics, given[5]);
        Properties config = new Properties();
        config.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, given[1]);
        config.put(StreamsConfig.APPLICATION_ID_CONFIG, given[2]);
        config.put(StreamsConfig.STATE_DIR_CONFIG, given[3]);
        config.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, given[4]);
        config.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        config.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
        config.put(StreamsConfig.REPLICATION_FACTOR_CONFIG, 1);
        config.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        config.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        config.put("auto.offset.reset", "earliest");
        KafkaStreams streams = new KafkaStreams(builder.build(), config);
        Runtime.getRuntime().addShutdownHook(new Thread(streams::close));
        streams.start();
    }

    private static void build(String name, StreamsBuilder builder, Map<String, String> topics, String out) {
        String a = topics.get("a");
        switch (name) {
            case "map" -> builder.<String, String>stream(a).mapValues(value -> value + "!").to(out);
            case "count" -> builder.<String, String>stream(a).groupByKey().count().toStream()
                .mapValues(String::valueOf).to(out);
            case "tumbling" -> builder.<String, String>stream(a).groupByKey()
                .windowedBy(TimeWindows.ofSizeWithNoGrace(Duration.ofMinutes(1))).count().toStream()
                .map((window, count) -> KeyValue.pair(window.key(), String.valueOf(count))).to(out);
            case "session" -> builder.<String, String>stream(a).groupByKey()
                .windowedBy(SessionWindows.ofInactivityGapWithNoGrace(Duration.ofSeconds(30))).count().toStream()
                .map((window, count) -> KeyValue.pair(window.key(), String.valueOf(count))).to(out);
            case "stream_table" -> builder.<String, String>stream(a)
                .join(builder.<String, String>table(topics.get("t")), (left, right) -> left + right).to(out);
            case "table_table" -> builder.<String, String>table(a)
                .join(builder.<String, String>table(topics.get("b")), (left, right) -> left + right)
                .toStream().to(out);
            default -> throw new IllegalArgumentException(name);
        }
    }
}
