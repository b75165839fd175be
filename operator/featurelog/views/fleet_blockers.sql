-- What keeps each cluster from a release of Kafka: a row for each blocker, and for each thing that is not known.
-- A cluster without a row is ready. `release`: such as '4.2'.
SELECT cluster, cluster_id, verdict, 'node' AS kind, one.reason AS reason, one.role AS role, one.node_id AS node_id,
       one.feature AS feature, one.needed AS needed, one.supported_min AS supported_min,
       one.supported_max AS supported_max, one.ghost_suspect AS ghost_suspect, one.node AS evidence_node,
       one.file AS evidence_file, one.offset AS evidence_offset, one.ts AS evidence_ts, CAST(NULL AS STRING) AS text
FROM (SELECT cluster, cluster_id, verdict, explode(blocking_nodes) AS one
      FROM upgrade_readiness WHERE target_kind = 'release' AND target = release) AS nodes
UNION ALL
SELECT cluster, cluster_id, verdict, 'loss', one.undo, NULL, NULL, one.feature, one.to_level, NULL, NULL, NULL, NULL,
       NULL, NULL, NULL, one.text
FROM (SELECT cluster, cluster_id, verdict, explode(downgrade_losses) AS one
      FROM upgrade_readiness WHERE target_kind = 'release' AND target = release) AS losses
UNION ALL
SELECT cluster, cluster_id, verdict, 'other', one.kind, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
       NULL, one.text
FROM (SELECT cluster, cluster_id, verdict, explode(other_blockers) AS one
      FROM upgrade_readiness WHERE target_kind = 'release' AND target = release) AS others
UNION ALL
SELECT cluster, cluster_id, verdict, 'unknown', one.kind, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
       NULL, one.text
FROM (SELECT cluster, cluster_id, verdict, explode(unknown_because) AS one
      FROM upgrade_readiness WHERE target_kind = 'release' AND target = release) AS unknowns
