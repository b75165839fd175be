"""Produces and consumes with a librdkafka out of a wheel that is of an older Python: by ctypes, which asks for none."""

import ctypes
import json
import os
import sys
import time

library, bootstrap, topic, name, seconds = *sys.argv[1:5], int(sys.argv[5])
rd = ctypes.CDLL(library)
pointer, text = ctypes.c_void_p, ctypes.c_char_p
for function in (
    "rd_kafka_conf_new", "rd_kafka_new", "rd_kafka_topic_new", "rd_kafka_topic_partition_list_new",
    "rd_kafka_topic_partition_list_add", "rd_kafka_consumer_poll",
):  # fmt: skip
    getattr(rd, function).restype = pointer
rd.rd_kafka_conf_set.argtypes = [pointer, text, text, pointer, ctypes.c_size_t]
rd.rd_kafka_new.argtypes = [ctypes.c_int, pointer, pointer, ctypes.c_size_t]
rd.rd_kafka_topic_new.argtypes = [pointer, text, pointer]
rd.rd_kafka_produce.argtypes = [
    *(pointer, ctypes.c_int32, ctypes.c_int, text, ctypes.c_size_t, pointer, ctypes.c_size_t, pointer)
]
rd.rd_kafka_poll.argtypes = rd.rd_kafka_consumer_poll.argtypes = [pointer, ctypes.c_int]
rd.rd_kafka_poll_set_consumer.argtypes = [pointer]
rd.rd_kafka_topic_partition_list_add.argtypes = [pointer, text, ctypes.c_int32]
rd.rd_kafka_subscribe.argtypes = [pointer, pointer]
rd.rd_kafka_commit.argtypes = [pointer, pointer, ctypes.c_int]
PRODUCER, CONSUMER, ANY, COPY = 0, 1, -1, 2
DELIVERED = ctypes.CFUNCTYPE(None, pointer, ctypes.POINTER(ctypes.c_int), pointer)
errors: list[int] = []


def deliver(_client: int, message: "ctypes._Pointer[ctypes.c_int]", _opaque: int) -> None:
    errors.append(message[0])  # its first field


delivered = DELIVERED(deliver)


def client(kind: int, **settings: str) -> int:
    configuration, problem = rd.rd_kafka_conf_new(), ctypes.create_string_buffer(512)
    more = json.loads(os.environ.get("LIBRDKAFKA_SETTINGS", "{}"))
    for key, value in {"bootstrap_servers": bootstrap, "client_id": name, **settings, **more}.items():
        if rd.rd_kafka_conf_set(configuration, key.replace("_", ".").encode(), value.encode(), problem, 512):
            sys.exit(problem.value.decode())
    if kind == PRODUCER:
        rd.rd_kafka_conf_set_dr_msg_cb(pointer(configuration), delivered)
    handle = rd.rd_kafka_new(kind, configuration, problem, 512)
    if not handle:
        sys.exit(problem.value.decode())
    return int(handle)


producer = client(PRODUCER)
handle = rd.rd_kafka_topic_new(producer, topic.encode(), None)
rd.rd_kafka_produce(handle, ANY, COPY, b"value", 5, None, 0, None)
end = time.monotonic() + seconds
while not errors and time.monotonic() < end:
    rd.rd_kafka_poll(producer, 200)
if errors != [0]:
    sys.exit(f"not produced: {errors}")
print("produced", flush=True)
consumer = client(CONSUMER, group_id=name, auto_offset_reset="earliest")
rd.rd_kafka_poll_set_consumer(consumer)
topics = rd.rd_kafka_topic_partition_list_new(1)
rd.rd_kafka_topic_partition_list_add(topics, topic.encode(), ANY)
rd.rd_kafka_subscribe(consumer, topics)
end = time.monotonic() + seconds
while time.monotonic() < end:
    message = rd.rd_kafka_consumer_poll(consumer, 200)
    if message and ctypes.cast(message, ctypes.POINTER(ctypes.c_int))[0] == 0:
        rd.rd_kafka_commit(consumer, None, 0)
        print("consumed", flush=True)
        sys.exit(0)
sys.exit("not consumed")
