import java.net.URI;
import org.apache.activemq.broker.BrokerFactory;
import org.apache.activemq.broker.BrokerService;

/** Runs the ActiveMQ broker of a URI until it is stopped. */
public final class ActiveMq {
    public static void main(String[] arguments) throws Exception {
        BrokerService broker = BrokerFactory.createBroker(new URI(arguments[0]));
        broker.start();
        broker.waitUntilStarted();
        broker.waitUntilStopped();
    }
}
