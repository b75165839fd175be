-- Migrations from ZooKeeper that are under way and in which nothing changed for a day at the end of what was read:
-- neither the state nor who is in ZooKeeper mode still; also those that were finalized while brokers were in that mode.
SELECT m.cluster, m.cluster_id, m.state_name, m.from_ts AS since, m.not_after, m.zk_brokers_remaining, ends.read_until,
       m.evidence_node, m.evidence_file, m.evidence_offset
FROM migration_timeline AS m
JOIN (SELECT cluster, cluster_id, max(watermark_ts) AS read_until
      FROM upgrade_readiness GROUP BY cluster, cluster_id) AS ends
  ON m.cluster = ends.cluster AND m.cluster_id IS NOT DISTINCT FROM ends.cluster_id
WHERE m.is_current
  AND (m.state_name IS NULL OR m.state_name NOT IN ('NONE', 'POST_MIGRATION') OR size(m.zk_brokers_remaining) > 0)
  AND coalesce(m.from_ts, m.not_after) <= ends.read_until - INTERVAL 1 DAY
