"""A fleet of clusters that never ran: what Kafka's own retention would leave of their metadata logs, file by file.

Each cluster is a simulated one (`world`) that lived through weeks of virtual time: rolls, level changes, topics, nodes
that left and were not unregistered. `plan` draws what happens to which cluster, `history` lets it happen, `files`
writes the directories of its nodes, `fleet` all of it. The same seed and scale give the same bytes. The records are
real ones in the order in which real controllers write them; `fleet.json` beside them says that they are simulated.

Made for `demo --story fleet`, tests and the bench of the pipeline. Needs numpy.
"""
