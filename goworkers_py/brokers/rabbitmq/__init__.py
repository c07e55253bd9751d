"""All that speaks to RabbitMQ."""
