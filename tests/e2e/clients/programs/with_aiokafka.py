"""Produces and consumes with the aiokafka that is on the path."""

import asyncio
import sys

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

bootstrap, topic, name, seconds = *sys.argv[1:4], int(sys.argv[4])


async def main() -> None:
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, client_id=name, acks="all")
    await asyncio.wait_for(producer.start(), seconds)
    await asyncio.wait_for(producer.send_and_wait(topic, b"value"), seconds)
    print("produced", flush=True)
    consumer = AIOKafkaConsumer(
        topic, bootstrap_servers=bootstrap, client_id=name, group_id=name, auto_offset_reset="earliest"
    )
    await asyncio.wait_for(consumer.start(), seconds)
    await asyncio.wait_for(consumer.getone(), seconds)
    await consumer.commit()
    print("consumed", flush=True)


asyncio.run(main())
