"""Renderings of the chart that set each of its values to something else than its default, as few as possible."""

from __future__ import annotations

from collections.abc import Mapping

from tests.e2e.kubernetes.chart.rendering import EVERYTHING, Values, document
from tests.e2e.kubernetes.chart.test_pipeline import ALL as PIPELINE
from tests.e2e.kubernetes.chart.test_placement import DIGEST, EXTRA_OBJECTS

_MONITORING = EVERYTHING["monitoring"]

RENDERINGS: Mapping[str, Values] = {
    "no value": {},
    "every value": {
        **EVERYTHING,
        "extraObjects": [*EXTRA_OBJECTS["extraObjects"], document("orders")],
        "fullnameOverride": "kff",
        "memory": {"perCluster": "128Mi", "allClusters": "300Mi"},
        "monitoring": {
            "serviceMonitor": {**_MONITORING["serviceMonitor"], "interval": "1m"},
            "prometheusRule": {**_MONITORING["prometheusRule"], "labels": {"release": "prometheus"}},
            "grafanaDashboard": {**_MONITORING["grafanaDashboard"], "labels": {"dashboards": "all"}},
        },
        "nameOverride": "features",
        "pipeline": {
            **PIPELINE,
            "config": {**PIPELINE["config"], "clients": {"releases": ["4.1"]}},
            "evidence": {"existingClaim": "evidence"},
            "executors": {"instances": 2},
            "image": {**PIPELINE["image"], "registry": "elsewhere:5000"},
            "resources": {"requests": {"cpu": "1", "memory": "2Gi"}, "limits": {"memory": "6Gi"}},
        },
        "rbac": {"aggregateClusterRoles": False},
        "recorder": {
            **EVERYTHING["recorder"],
            "allClusters": "16Gi",
            "fsGroup": 2000,
            "size": "20Gi",
        },
        "resources": {"requests": {"cpu": 1, "memory": "256Mi"}, "limits": {"memory": "1Gi"}},
    },
    "what those exclude": {
        "crds": {"keep": False},
        "drivers": {"statefulSet": ["kafka", "payments"], "strimzi": ["kafka"], "pods": ["kafka"]},
        "image": {"digest": DIGEST},
        "podPatchPolicy": {"enabled": False},
        "pipeline": {**PIPELINE, "image": {"digest": DIGEST}, "sparkApplication": {"enabled": True}},
        "rbac": {"discovery": False},
        "recorder": {"enabled": True, "existingClaim": "mine", "fsGroup": 0},
        "watchAllNamespaces": True,
    },
    "rights and the CRD left to others": {
        "crds": {"enabled": False},
        "rbac": {"create": False},
        "serviceAccount": {"create": False},
    },
}
