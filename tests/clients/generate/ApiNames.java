// Prints the names of all APIs, which are those of the counters of brokers of this release. Run by
// `tests/e2e/kafka/test_client_targets.py`, with the jar of a release and that of its logging on the class path.

import org.apache.kafka.common.protocol.ApiKeys;

public class ApiNames {
    public static void main(String[] args) {
        for (ApiKeys api : ApiKeys.values()) {
            System.out.println(api.name);
        }
    }
}
