"""Evidence about clients as files: scrapes of brokers, reduced request logs, and the owners of clients."""
