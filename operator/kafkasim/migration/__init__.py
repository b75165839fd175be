"""A simulated cluster that migrates from ZooKeeper to KRaft: the ensemble, the elected broker, the quorum, and its
driver.
"""
