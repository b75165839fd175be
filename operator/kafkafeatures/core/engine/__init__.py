"""Parts that every kind of change shares: the plan and its stages, the gates, intents, and the one decision."""
