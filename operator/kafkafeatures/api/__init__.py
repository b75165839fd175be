"""The KafkaFeatures resource as types: spec, status, reasons, names.

A spec is read strictly (`schema.py`). A status is read leniently (`records.py`): what another release of the operator
wrote into it is kept and written back.
"""
