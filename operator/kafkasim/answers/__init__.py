"""What the nodes of a simulated cluster answer: typed answers to typed requests, not encoded yet."""
