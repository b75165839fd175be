"""Evidence about clients as files: scrapes of brokers, their logs, reduced request logs, and the owners of clients."""
