"""The command line: parse arguments, call verbs, print. The only folder that uses Typer and Rich."""
