"""Settings of a session that lives for seconds: for interpreters that have not all that tests have."""

HEAP = {
    "spark.driver.memory": "1g",
    # What is run once need not be compiled twice: a run takes a third less time.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}
