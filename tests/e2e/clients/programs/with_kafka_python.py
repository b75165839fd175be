"""Produces and consumes with the kafka-python that is on the path."""

import os
import sys
import time

from kafka import KafkaConsumer, KafkaProducer

bootstrap, topic, name, seconds = *sys.argv[1:4], int(sys.argv[4])
producer = KafkaProducer(bootstrap_servers=bootstrap, client_id=name, acks="all", retries=0)
producer.send(topic, b"value").get(timeout=seconds)
print("produced", flush=True)
consumer = KafkaConsumer(
    topic, bootstrap_servers=bootstrap, client_id=name, group_id=name, auto_offset_reset="earliest"
)
end = time.monotonic() + seconds
while not consumer.poll(500):
    if time.monotonic() > end:
        sys.exit(1)
consumer.commit()
print("consumed", flush=True)
os._exit(0)  # not by its exit functions: one process of 1.4.7 did not end after all was done
