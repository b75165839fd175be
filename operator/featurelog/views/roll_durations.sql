-- Each roll: times that nodes were away without a long pause in between. ended is null where it is not over, or where
-- that is not known; so are the sums over partitions where partitions were not followed.
SELECT cluster, cluster_id, roll_id, min(roll_from) AS started, max(roll_to) AS ended, max(roll_nodes) AS nodes,
       count(*) AS restarts, max(duration_ms) AS slowest_ms, sum(duration_ms) AS nodes_ms,
       max(concurrency) AS most_at_once, max(partitions_affected) AS partitions_affected,
       max(without_leader_ms) AS without_leader_ms, max(below_minimum_ms) AS below_minimum_ms
FROM rolls
GROUP BY cluster, cluster_id, roll_id
