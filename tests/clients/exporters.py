"""Scrapes as exporters write them: the same counters by the published rules of each.

The names are what those rules make of Kafka's own (Strimzi's `examples/metrics/kafka-metrics.yaml`, Bitnami's chart,
Confluent's `jmx-monitoring-stacks`, the JMX exporter without rules), tried on the rule files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kafkafeatures.core.clients.evidence import Scrape

Counters = Mapping[tuple[str, int], float]

START = 1_764_374_399_123
"""The start of the broker, in ms: 2025-11-28 23:59:59.123 UTC."""
WHOLE = "# TYPE jmx_scrape_error gauge\njmx_scrape_error 0.0\n"
"""The sample by which the JMX exporter says that it left out nothing."""
AGENT = (
    '# TYPE jmx_exporter_build_info gauge\njmx_exporter_build_info{name="jmx_prometheus_javaagent",version="1.0.1"} 1\n'
    + WHOLE
)
"""An exporter in the process of the broker: `process_start_time_seconds` is the start of the broker."""
BESIDE = 'jmx_exporter_build_info{version="0.20.0",name="jmx_prometheus_httpserver",} 1.0\n' + WHOLE
"""An exporter in a process of its own: `process_start_time_seconds` is not the start of the broker."""
PURGATORY = (
    "# TYPE kafka_server_delayedoperationpurgatory_numdelayedoperations gauge\n"
    'kafka_server_delayedoperationpurgatory_numdelayedoperations{delayedOperation="Fetch"} 3\n'
    'kafka_server_delayedoperationpurgatory_numdelayedoperations{delayedOperation="ElectLeader"} 0\n'
)
"""The operations that wait in a broker. Kafka 4.x has no `ElectLeader` among them."""
MEMORY = '# TYPE jvm_memory_used_bytes gauge\njvm_memory_used_bytes{area="heap"} 1e6\n'


def process_start(milliseconds: int = START) -> str:
    return f"# TYPE process_start_time_seconds gauge\nprocess_start_time_seconds {milliseconds / 1000:.12E}\n"


def strimzi(counters: Counters) -> str:
    lines = [
        f'kafka_network_requestmetrics_requests_total{{request="{a}",version="{v}"}} {c}\n'
        for (a, v), c in counters.items()
    ]
    deprecated = (
        "kafka_network_requestmetrics_deprecatedrequests_total"
        '{request_Produce__version_2__clientSoftwareName="unknown",clientSoftwareVersion="unknown"} 10\n'
    )
    head = "# TYPE kafka_network_requestmetrics_requests_total counter\n"
    return AGENT + MEMORY + deprecated + head + "".join(lines) + process_start() + PURGATORY


def bitnami(counters: Counters) -> str:
    name = "kafka_network_requestmetrics_requestspersec_count"
    lines = [f'{name}{{request="{a}, version={v}",}} {c:.12E}\n' for (a, v), c in counters.items()]
    start = f"# TYPE java_lang_runtime_starttime untyped\njava_lang_runtime_starttime {START:.12E}\n"
    purgatory = "kafka_server_delayedoperationpurgatory_numdelayedoperations_electleader_value 0.0\n"
    return BESIDE + purgatory + f"# TYPE {name} untyped\n" + "".join(lines) + start + process_start(START - 10**9)


def confluent(counters: Counters) -> str:
    name = "kafka_network_requestmetrics_requestspersec"
    lines = [f'{name}{{request="{a}",version="{v}",}} {c}\n' for (a, v), c in counters.items()]
    purgatory = PURGATORY.replace("delayedO", "delayedo").replace("} 0", ",} 0.0")
    return MEMORY + purgatory + f"# TYPE {name} untyped\n" + "".join(lines) + process_start() + AGENT


def without_rules(counters: Counters) -> str:
    name = "kafka_network_RequestMetrics_Count"
    total = sum(count for (api, _), count in counters.items() if api == "Produce")
    other = f'{name}{{name="TotalTimeMs",request="Produce",}} {total}\n'
    lines = [f'{name}{{name="RequestsPerSec",request="{a}",version="{v}",}} {c}\n' for (a, v), c in counters.items()]
    purgatory = (
        'kafka_server_DelayedOperationPurgatory_Value{delayedOperation="ElectLeader",name="PurgatorySize"} 0.0\n'
    )
    return AGENT + f"# TYPE {name} untyped\n" + other + "".join(lines) + other + process_start() + purgatory


def answer_of(scrape: Scrape) -> str:
    """The answer of an exporter with Strimzi's rules that shows this scrape."""
    family = "kafka_network_requestmetrics_requests_total"
    lines = [
        f'{family}{{request="{api}",version="{version}"}} {count}\n'
        for (api, version), count in scrape.counters.items()
    ]
    mark = PURGATORY if scrape.accepts_removed else ""
    return AGENT + f"# TYPE {family} counter\n" + "".join(lines) + process_start(scrape.start) + mark


EXPORTERS: dict[str, Callable[[Counters], str]] = {
    "Strimzi": strimzi,
    "Bitnami": bitnami,
    "Confluent": confluent,
    "JMX exporter without rules": without_rules,
}
