import java.io.DataInputStream;
import java.io.File;
import java.io.FileInputStream;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.stream.Collectors;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.requests.ProduceRequest;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.common.RequestLocal;
import org.apache.kafka.server.util.KafkaScheduler;
import org.apache.kafka.storage.internals.log.AppendOrigin;
import org.apache.kafka.storage.internals.log.LogAppendInfo;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.RecordValidationException;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.internals.log.VerificationGuard;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

/**
 * What Apache Kafka answers to a producer's bytes: each case of a file (int32 length, bytes) goes into a real log of
 * its own; one line a case, "code max_timestamp index,index,...". verdicts.py in this directory runs it.
 */
public class Verdicts {
    public static void main(String[] args) throws Exception {
        Properties options = new Properties();
        for (int i = 1; i < args.length; i++)
            options.setProperty(args[i].substring(0, args[i].indexOf('=')), args[i].substring(args[i].indexOf('=') + 1));
        File root = Files.createTempDirectory("verdicts").toFile();
        KafkaScheduler scheduler = new KafkaScheduler(1);
        scheduler.startup();
        try (DataInputStream cases = new DataInputStream(new FileInputStream(args[0]))) {
            for (int number = 0; cases.available() > 0; number++) {
                byte[] records = cases.readNBytes(cases.readInt());
                System.out.println(verdict(root, number, options, scheduler, records));
            }
        }
        scheduler.shutdown();
        System.exit(0);
    }

    private static String verdict(File root, int number, Properties options, KafkaScheduler scheduler, byte[] bytes)
            throws Exception {
        File directory = new File(root, "t" + number + "-0");
        directory.mkdirs();
        UnifiedLog log = UnifiedLog.create(directory, new LogConfig(options), 0, 0, scheduler, new BrokerTopicStats(),
            Time.SYSTEM, 60000, new ProducerStateManagerConfig(60000, false), 60000, new LogDirFailureChannel(1), true,
            Optional.empty());
        String rejected = "";
        try {
            MemoryRecords records = MemoryRecords.readableRecords(ByteBuffer.wrap(bytes));
            ProduceRequest.validateRecords((short) 12, records);
            LogAppendInfo info = log.appendAsLeader(records, 0, AppendOrigin.CLIENT, RequestLocal.noCaching(),
                VerificationGuard.SENTINEL, (short) 0);
            return "0 " + info.maxTimestamp() + " ";
        } catch (RecordValidationException refused) {
            rejected = refused.recordErrors().stream().map(e -> Integer.toString(e.batchIndex))
                .collect(Collectors.joining(","));
            return Errors.forException(refused.invalidException()).code() + " -1 " + rejected;
        } catch (Throwable refused) {
            return Errors.forException(refused).code() + " -1 ";
        } finally {
            log.close();
        }
    }
}
