"""`kafkafeatures demo`: walkthroughs on simulated clusters."""
