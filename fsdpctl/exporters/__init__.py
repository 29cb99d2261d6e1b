"""Write a job as files of other launchers, which run without fsdpctl. A target is a file and a row in `table.py`."""
