"""Evidence about clients in the pipeline: request logs, scrapes and server logs of brokers, in folders of their own."""
