"""What commands and configurations of other launchers mean as keys of a job. Nothing is executed.

`command.py` reads the key `command` of a job. Below it, `importers/` shares all of it: the words of a shell (`shell/`),
the options of each launcher (`launcher_options/`), and the configuration of Accelerate (`accelerate/`).
"""
