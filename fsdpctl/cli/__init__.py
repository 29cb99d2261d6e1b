"""Words to calls: the only place with Typer and Rich."""
