// Prints the APIs that only nodes of a cluster may call, which Kafka checks by the right ClusterAction. Run by
// `python -m tests.clients.generate`, with all jars of a release on the class path.

import org.apache.kafka.common.protocol.ApiKeys;

public class ClusterActions {
    public static void main(String[] args) {
        for (ApiKeys api : ApiKeys.values()) {
            if (api.clusterAction) {
                System.out.println(api.id);
            }
        }
    }
}
