"""Two examples of each command, as `--help` and the command's page in the reference show them.

Read by `main.py` for `--help`, and for the pages of commands in the reference. A test parses each with the flags of its
command.
"""

from __future__ import annotations

from collections.abc import Mapping

_KAFKA = "--bootstrap-server kafka-1.example:9092"
_SECURED = "--bootstrap-server kafka-1.example:9093 --config client.properties"

EXAMPLES: Mapping[str, tuple[tuple[str, str], tuple[str, str]]] = {
    "describe": (
        ("levels, nodes, and what blocks a raise", f"describe {_KAFKA}"),
        ("the same as a page, of a cluster with TLS and SASL", f"describe {_SECURED} -o html > cluster.html"),
    ),
    "check": (
        ("can the cluster be raised to the levels of Kafka 4.2", f"check {_KAFKA} --release 4.2"),
        ("which rights the user has, and which are missing", f"check {_SECURED} --rights --mode levels"),
    ),
    "plan": (
        ("what apply would do with a document", "plan -f orders.yaml"),
        ("the plan of a resource on Kubernetes", "plan orders -n kafka"),
    ),
    "apply": (
        ("show the plan, ask, and carry it out", "apply -f orders.yaml"),
        ("in a script: only the plan with this hash", "apply -f orders.yaml --approve sha256:9f3c1b7a51c2"),
    ),
    "upgrade": (
        (
            "show the plan, ask, and raise all levels; keep the document",
            f"upgrade --release 4.2 {_KAFKA} --save o.yaml",
        ),
        (
            "one feature only; show the plan, and change nothing",
            f"upgrade --feature group.version=1 {_KAFKA} --dry-run",
        ),
    ),
    "downgrade": (
        ("show what may be lost, and ask for the consent", f"downgrade --feature transaction.version=1 {_KAFKA}"),
        ("in a script: print the plan with its hash first", f"downgrade --feature share.version=0 {_KAFKA} --dry-run"),
    ),
    "init": (
        ("a document that matches the cluster", f"init {_KAFKA} --name orders > orders.yaml"),
        ("the same for a cluster with TLS and SASL", f"init {_SECURED} > orders.yaml"),
    ),
    "unregister": (
        ("a broker that is gone; asks for its id", f"unregister --broker 4 {_KAFKA}"),
        ("a controller that is gone, in a script", f"unregister --controller 3003 {_KAFKA} --yes"),
    ),
    "migration": (
        ("the settings that each node needs for the next phase", "migration settings -f orders.yaml"),
        ("does ZooKeeper have the metadata that the log has", "migration compare -f orders.yaml"),
    ),
    "clients": (
        (
            "do clients break with Kafka 4.0, by the counters of brokers",
            "clients check --release 4.0 --evidence scrapes/",
        ),
        ("what a broker refused, and which clients sent it, by its log", "clients rejected server.log"),
    ),
    "log": (
        ("every record", "log decode /var/lib/kafka/__cluster_metadata-0"),
        ("check every byte", "log verify /var/lib/kafka"),
    ),
    "pipeline": (
        ("read what is new, and make the tables", "pipeline run --config pipeline.yaml"),
        ("may all clusters be taken to Kafka 4.2", "pipeline gate --config pipeline.yaml --release 4.2"),
    ),
    "list": (
        ("the resources of all namespaces", "list -A"),
        ("those of a team, and each change of them", "list -n kafka -l team=orders -w"),
    ),
    "status": (
        ("a resource: its condition, plan and blockers", "status orders -n kafka"),
        ("the status for scripts", "status orders -n kafka -o json"),
    ),
    "wait": (
        ("until the resource is ready", "wait orders -n kafka --timeout 30m"),
        ("until a feature reaches a level", "wait orders -n kafka --for 'feature=group.version>=1'"),
    ),
    "reconcile": (
        ("reconcile now, and show the result", "reconcile orders -n kafka"),
        ("give up after five minutes", "reconcile orders -n kafka --timeout 5m"),
    ),
    "approve": (
        ("show the plan that is waiting, and ask", "approve orders -n kafka"),
        ("in a script: only the plan with this hash", "approve orders -n kafka --plan sha256:9f3c1b7a51c2"),
    ),
    "suspend": (
        ("start no new step", "suspend orders -n kafka"),
        ("in another cluster of the kubeconfig", "suspend orders -n kafka --context production"),
    ),
    "resume": (
        ("start the next step again", "resume orders -n kafka"),
        ("in another cluster of the kubeconfig", "resume orders -n kafka --context production"),
    ),
    "restart": (
        ("all nodes, one after the other", "restart orders -n kafka"),
        ("a single pod", "restart orders -n kafka --pod orders-broker-2"),
    ),
    "report": (
        ("an archive for an issue report; no secrets", "report orders -n kafka -o report.tar.gz"),
        ("a page for people", "report orders -n kafka --html orders.html"),
    ),
    "run": (
        ("the operator for two namespaces", "run --namespace kafka --namespace staging"),
        ("for all namespaces; probes and metrics on this machine alone", "run --listen 127.0.0.1:8080"),
    ),
    "serve": (
        ("the resources of all namespaces, on this machine alone", "serve -A"),
        ("one cluster, without Kubernetes", "serve --bootstrap-server kafka-1.example:9092"),
    ),
    "simulate": (
        ("three controllers and three brokers of Kafka 4.2", "simulate"),
        ("in the middle of an upgrade, with a ghost", "simulate --old-broker 2=4.0 --ghost-broker 4=4.0"),
    ),
    "demo": (
        ("an upgrade on a simulated cluster", "demo"),
        ("a roll to a new image", "demo --story roll"),
    ),
    "completion": (
        ("for this shell (zsh: the same, after compinit)", "completion bash"),
        ("for fish", "completion fish"),
    ),
    "version": (
        ("the version, and the releases of Kafka that it knows", "version"),
        ("the version alone", "--version"),
    ),
}
"""By command: what an example does, and its command line without the name of the program."""
