import java.util.List;
import java.util.Map;
import org.opensearch.common.settings.Settings;
import org.opensearch.http.HttpServerTransport;
import org.opensearch.node.InternalSettingsPreparer;
import org.opensearch.node.Node;
import org.opensearch.transport.Netty4Plugin;

/** One OpenSearch node with its HTTP interface on a free port, which it prints. */
public class MiniOpenSearch extends Node {
    MiniOpenSearch(Settings settings) {
        super(InternalSettingsPreparer.prepareEnvironment(settings, Map.of(), null, () -> "mini"),
            List.of(Netty4Plugin.class), false);
    }

    public static void main(String[] arguments) throws Exception {
        Settings settings = Settings.builder()
            .put("path.home", arguments[0]).put("cluster.name", "mini").put("discovery.type", "single-node")
            .put("network.host", "127.0.0.1").put("http.port", "0").put("transport.port", "0")
            .put("cluster.routing.allocation.disk.threshold_enabled", false).build();
        MiniOpenSearch node = new MiniOpenSearch(settings);
        node.start();
        HttpServerTransport http = node.injector().getInstance(HttpServerTransport.class);
        System.out.println("port " + http.boundAddress().publishAddress().getPort());
        System.out.flush();
        System.in.read();
        node.close();
    }
}
