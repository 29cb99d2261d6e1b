"""The text of logs: who wrote which line, which rules fit, and which match ended the process."""
