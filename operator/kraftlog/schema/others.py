"""The metadata records that no image is made of: rights, credentials, tokens, quotas, producer ids.

Made from Kafka's jars by `python -m tests.kraftlog.generate`; do not edit. Loaded when one of them is decoded.
"""

from __future__ import annotations

from kraftlog.schema.types import Array, Field, Layout, RecordType, Scalar, metadata, struct

B, I8, I32, I64, F64, UUID, STRING, BYTES = (
    Scalar.BOOL,
    Scalar.INT8,
    Scalar.INT32,
    Scalar.INT64,
    Scalar.FLOAT64,
    Scalar.UUID,
    Scalar.STRING,
    Scalar.BYTES,
)


# Kafka 3.0 to 3.4.
ACCESS_CONTROL = metadata(
    6,
    "ACCESS_CONTROL_RECORD",
    Field("resourceType", I8),
    Field("resourceName", STRING, nullable=True),
    Field("patternType", I8),
    Field("principal", STRING),
    Field("host", STRING),
    Field("operation", I8),
    Field("permissionType", I8),
)

# Without the HMAC of the token: nodes derive it from the id and their secret.
DELEGATION_TOKEN = RecordType(
    10,
    "DELEGATION_TOKEN_RECORD",
    0,
    (
        Layout(
            struct(
                Field("owner", STRING),
                Field("requester", STRING),
                Field("renewers", Array(STRING)),
                Field("issueTimestamp", I64),
                Field("maxTimestamp", I64),
                Field("expirationTimestamp", I64),
                Field("tokenId", STRING),
            )
        ),
        Layout(
            struct(
                Field("owner", STRING),
                Field("renewers", Array(STRING)),
                Field("issueTimestamp", I64),
                Field("maxTimestamp", I64),
                Field("expirationTimestamp", I64),
                Field("tokenId", STRING),
            ),
            "3.0-3.5",
        ),
    ),
)

# Secret, but for name, mechanism and iterations. The older layout is older than KIP-900.
USER_SCRAM_CREDENTIAL = RecordType(
    11,
    "USER_SCRAM_CREDENTIAL_RECORD",
    0,
    (
        Layout(
            struct(
                Field("name", STRING),
                Field("mechanism", I8),
                Field("salt", BYTES),
                Field("storedKey", BYTES),
                Field("serverKey", BYTES),
                Field("iterations", I32),
            )
        ),
        Layout(
            struct(
                Field("name", STRING),
                Field(
                    "credentialInfos",
                    Array(
                        struct(
                            Field("mechanism", I8),
                            Field("salt", BYTES),
                            Field("saltedPassword", BYTES),
                            Field("iterations", I32),
                        )
                    ),
                ),
            ),
            "3.0-3.4",
        ),
    ),
)

CLIENT_QUOTA = metadata(
    14,
    "CLIENT_QUOTA_RECORD",
    Field("entity", Array(struct(Field("entityType", STRING), Field("entityName", STRING, nullable=True)))),
    Field("key", STRING),
    Field("value", F64),
    Field("remove", B),
)

# Kafka 3.0 and 3.1 call the last field producerIdsEnd; it is the same number.
PRODUCER_IDS = metadata(
    15,
    "PRODUCER_IDS_RECORD",
    Field("brokerId", I32),
    Field("brokerEpoch", I64),
    Field("nextProducerId", I64),
)

ACCESS_CONTROL_ENTRY = metadata(
    18,
    "ACCESS_CONTROL_ENTRY_RECORD",
    Field("id", UUID),
    Field("resourceType", I8),
    Field("resourceName", STRING),
    Field("patternType", I8),
    Field("principal", STRING),
    Field("host", STRING),
    Field("operation", I8),
    Field("permissionType", I8),
)

REMOVE_ACCESS_CONTROL_ENTRY = metadata(
    19,
    "REMOVE_ACCESS_CONTROL_ENTRY_RECORD",
    Field("id", UUID),
)

REMOVE_USER_SCRAM_CREDENTIAL = metadata(
    22,
    "REMOVE_USER_SCRAM_CREDENTIAL_RECORD",
    Field("name", STRING),
    Field("mechanism", I8),
)

REMOVE_DELEGATION_TOKEN = metadata(
    26,
    "REMOVE_DELEGATION_TOKEN_RECORD",
    Field("tokenId", STRING),
)

OTHER_TYPES: tuple[RecordType, ...] = (
    ACCESS_CONTROL,
    DELEGATION_TOKEN,
    USER_SCRAM_CREDENTIAL,
    CLIENT_QUOTA,
    PRODUCER_IDS,
    ACCESS_CONTROL_ENTRY,
    REMOVE_ACCESS_CONTROL_ENTRY,
    REMOVE_USER_SCRAM_CREDENTIAL,
    REMOVE_DELEGATION_TOKEN,
)
