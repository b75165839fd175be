"""Notifications of people through a webhook: their formats, one request, and the deliveries with their retries."""
