// Runs Apache Kafka's own assignors over the groups that it reads, one line for each fact; prints who has what.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.ConsumerGroupPartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.RangeAssignor;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;

public class Assign {
    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        Map<Uuid, Integer> topics = new HashMap<>();
        Map<String, MemberSubscriptionAndAssignmentImpl> members = new LinkedHashMap<>();
        Map<Uuid, Map<Integer, String>> owners = new HashMap<>();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] said = line.split(" ", -1);
            if (said[0].equals("topic")) {
                topics.put(Uuid.fromString(said[1]), Integer.parseInt(said[2]));
            } else if (said[0].equals("member")) {
                Map<Uuid, Set<Integer>> held = partitions(said[4]);
                held.forEach((topic, indexes) -> indexes.forEach(
                    index -> owners.computeIfAbsent(topic, any -> new HashMap<>()).put(index, said[1])));
                Optional<String> instance = said[2].isEmpty() ? Optional.empty() : Optional.of(said[2]);
                Set<Uuid> subscribed = new LinkedHashSet<>();
                for (String topic : said[3].split(",")) if (!topic.isEmpty()) subscribed.add(Uuid.fromString(topic));
                members.put(said[1], new MemberSubscriptionAndAssignmentImpl(
                    Optional.empty(), instance, subscribed, new Assignment(held)));
            } else {
                ConsumerGroupPartitionAssignor assignor =
                    said[1].equals("range") ? new RangeAssignor() : new UniformAssignor();
                print(assignor, new GroupSpecImpl(members, SubscriptionType.valueOf(said[2]), owners), topics);
                topics.clear();
                members.clear();
                owners.clear();
            }
        }
    }

    private static Map<Uuid, Set<Integer>> partitions(String text) {
        Map<Uuid, Set<Integer>> found = new LinkedHashMap<>();
        for (String part : text.split(";")) {
            if (part.isEmpty()) continue;
            Set<Integer> indexes = found.computeIfAbsent(Uuid.fromString(part.split(":")[0]), any -> new TreeSet<>());
            for (String index : part.split(":")[1].split(",")) indexes.add(Integer.parseInt(index));
        }
        return found;
    }

    private static void print(ConsumerGroupPartitionAssignor assignor, GroupSpecImpl spec, Map<Uuid, Integer> topics) {
        SubscribedTopicDescriber describer = new SubscribedTopicDescriber() {
            public int numPartitions(Uuid topic) {
                return topics.getOrDefault(topic, -1);
            }

            public Set<String> racksForPartition(Uuid topic, int partition) {
                return Set.of();
            }
        };
        StringBuilder said = new StringBuilder();
        new TreeMap<>(assignor.assign(spec, describer).members()).forEach((member, assignment) ->
            assignment.partitions().forEach((topic, indexes) ->
                indexes.forEach(index -> said.append(member + " " + topic + " " + index + ";"))));
        System.out.println(said);
    }
}
