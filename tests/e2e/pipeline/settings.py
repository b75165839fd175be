"""Settings of a session that lives for seconds: for interpreters that have not all that tests have."""

LOOPBACK = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
"""Where executors find the driver."""

HEAP = {
    "spark.driver.memory": "1g",
    # What is run once need not be compiled twice: a run takes a third less time.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}
