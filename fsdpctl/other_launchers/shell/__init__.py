"""Shell scripts as text: statements, batch options, and the command that starts the ranks. Nothing is executed."""
