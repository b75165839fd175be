-- Registered at the end of what was read, though such a node seems to exist no longer.
SELECT cluster, cluster_id, role, node_id, ghost_reason, fenced, features, registered_ts, registered_node,
       registered_file, registered_offset, last_evidence_ts
FROM node_registrations
WHERE is_current AND ghost_suspect
