"""The ways a notice takes: each raises DeliveryError, whose text contains no secret."""
