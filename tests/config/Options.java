import java.util.Map;
import java.util.Optional;
import java.util.Scanner;
import java.util.TreeMap;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.coordinator.group.GroupConfig;
import org.apache.kafka.server.config.DynamicBrokerConfig;
import org.apache.kafka.server.config.ServerTopicConfigSynonyms;
import org.apache.kafka.storage.internals.log.LogConfig;

/** Prints Apache Kafka's options, then what it says to each "name=value" of a topic that comes on stdin. */
public class Options {
    static void print(String kind, ConfigDef options) {
        for (ConfigDef.ConfigKey key : new TreeMap<>(options.configKeys()).values()) {
            String value = key.hasDefault() ? ConfigDef.convertToString(key.defaultValue, key.type) : null;
            System.out.println(kind + "\t" + key.name + "\t" + key.type + "\t" + value + "\t" + key.internalConfig);
        }
    }

    public static void main(String[] arguments) {
        print("broker", kafka.server.KafkaConfig.configDef());
        print("topic", LogConfig.configDefCopy());
        print("group", GroupConfig.CONFIG_DEF);
        for (Map.Entry<String, String> mode : DynamicBrokerConfig.dynamicConfigUpdateModes().entrySet()) {
            System.out.println("dynamic\t" + mode.getKey() + "\t" + mode.getValue());
        }
        ServerTopicConfigSynonyms.ALL_TOPIC_CONFIG_SYNONYMS.forEach((name, synonyms) -> System.out.println(
            "synonym\t" + name + "\t" + String.join(",", synonyms.stream().map(one -> one.name()).toList())));
        for (Map.Entry<String, Optional<String>> entry : GroupConfig.ALL_GROUP_CONFIG_SYNONYMS.entrySet()) {
            System.out.println("synonym\t" + entry.getKey() + "\t" + entry.getValue().orElse(""));
        }
        Scanner lines = new Scanner(System.in);
        while (lines.hasNextLine()) {
            String line = lines.nextLine();
            String[] parts = line.split("=", 2);
            String said = "accepted";
            try {
                LogConfig.validate(Map.of(parts[0], parts[1]));
            } catch (Exception wrong) {
                said = wrong.getMessage();
            }
            System.out.println("verdict\t" + line + "\t" + said);
        }
    }
}
