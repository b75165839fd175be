"""The metadata records of clients: rights, credentials, tokens, quotas, producer ids.

Made from Kafka's jars by `python -m tests.kraftlog.generate`; do not edit. Loaded when one of them is decoded.
"""

from __future__ import annotations

from kraftlog.schema.types import RecordType, metadata

# Kafka 3.0 to 3.4.
ACCESS_CONTROL = metadata(
    "6 ACCESS_CONTROL_RECORD: resourceType int8, resourceName string?, patternType int8, "
    "principal string, host string, operation int8, permissionType int8"
)
# Without the HMAC of the token: nodes derive it from the id and their secret.
DELEGATION_TOKEN = metadata(
    "10 DELEGATION_TOKEN_RECORD: owner string, requester string, renewers [string], issueTimestamp int64,"
    " maxTimestamp int64, expirationTimestamp int64, tokenId string",
    {
        "3.0-3.5": "owner string, renewers [string], issueTimestamp int64, maxTimestamp int64, "
        "expirationTimestamp int64, tokenId string"
    },
)
# Secret, but for name, mechanism and iterations. The older layout is older than KIP-900.
USER_SCRAM_CREDENTIAL = metadata(
    "11 USER_SCRAM_CREDENTIAL_RECORD: name string, mechanism int8, salt bytes, storedKey bytes, "
    "serverKey bytes, iterations int32",
    {"3.0-3.4": "name string, credentialInfos [{mechanism int8, salt bytes, saltedPassword bytes, iterations int32}]"},
)
CLIENT_QUOTA = metadata(
    "14 CLIENT_QUOTA_RECORD: entity [{entityType string, entityName string?}], key string, value float64, remove bool"
)
# Kafka 3.0 and 3.1 call the last field producerIdsEnd; it is the same number.
PRODUCER_IDS = metadata("15 PRODUCER_IDS_RECORD: brokerId int32, brokerEpoch int64, nextProducerId int64")
ACCESS_CONTROL_ENTRY = metadata(
    "18 ACCESS_CONTROL_ENTRY_RECORD: id uuid, resourceType int8, resourceName string, patternType int8, "
    "principal string, host string, operation int8, permissionType int8"
)
REMOVE_ACCESS_CONTROL_ENTRY = metadata("19 REMOVE_ACCESS_CONTROL_ENTRY_RECORD: id uuid")
REMOVE_USER_SCRAM_CREDENTIAL = metadata("22 REMOVE_USER_SCRAM_CREDENTIAL_RECORD: name string, mechanism int8")
REMOVE_DELEGATION_TOKEN = metadata("26 REMOVE_DELEGATION_TOKEN_RECORD: tokenId string")

OTHER_TYPES: tuple[RecordType, ...] = (
    ACCESS_CONTROL, DELEGATION_TOKEN, USER_SCRAM_CREDENTIAL, CLIENT_QUOTA, PRODUCER_IDS, ACCESS_CONTROL_ENTRY,
    REMOVE_ACCESS_CONTROL_ENTRY, REMOVE_USER_SCRAM_CREDENTIAL, REMOVE_DELEGATION_TOKEN,
)  # fmt: skip
