-- Each finalized level and the time that it held. finalized_at is null where only a snapshot shows the level: then it
-- was finalized at not_after or before.
SELECT cluster, cluster_id, feature, level, level_name, previous_level, change, from_ts AS finalized_at, not_after,
       to_ts AS until, is_current, attribution, committed, evidence_node, evidence_file, evidence_offset
FROM feature_timeline
