import java.io.File;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.MiniDFSCluster;

/** An HDFS for tests: one name node and one data node in this process, until standard input ends. */
public class MiniHdfs {
    public static void main(String[] arguments) throws Exception {
        MiniDFSCluster cluster = new MiniDFSCluster.Builder(new Configuration(), new File(arguments[0]))
            .numDataNodes(1).build();
        cluster.waitActive();
        System.out.println("port " + cluster.getNameNodePort());
        System.out.flush();
        while (System.in.read() >= 0) { }
        cluster.shutdown(true);
        System.exit(0);
    }
}
