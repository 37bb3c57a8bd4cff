"""From files to prepared data: fetch, verify, unpack, read, find duplicates, split, write."""
