"""Prepared data that is read from object storage, through a cache on each node.

    location    a directory behind a URL of fsspec, and what its failures mean
    cache       the directory of the cache, its size, and which data sets are in use
    fetch       the files of a data set into the cache: each by one process of the node, all processes at once
    file_stamp  which file in the cache was verified, and has not changed since

It runs in ranks, and in `fsdpctl data`. Only `location` imports fsspec.
"""
