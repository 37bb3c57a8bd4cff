"""Whether a data set can be used on this machine: the states, and what they mean."""

READY = "ready"
DOWNLOADABLE = "downloadable"
DOWNLOAD_YOURSELF = "to download yourself"
ADDRESS_UNKNOWN = "address unknown"
FILE_MISSING = "file missing"
OUTDATED = "outdated"
CLASSES_MISSING = "classes missing"
MEANINGS = {
    DOWNLOADABLE: "`prepare` downloads it.",
    DOWNLOAD_YOURSELF: "its site asks for a registration, an account or a browser, so `prepare`"
    " cannot download it. Download its files, then pass their folder to `prepare` with"
    " --from=FOLDER. `prepare`, and the column `advice` of --format=csv, say which files and"
    " where they are.",
    ADDRESS_UNKNOWN: "no address of its files is known; if you have them, use --from=FOLDER.",
    FILE_MISSING: "its file is not on this machine.",
    OUTDATED: "an earlier version read its file otherwise than this one does.",
    CLASSES_MISSING: "the imported file has fewer classes than the task needs.",
}
"""What the states of a data set that is not ready mean."""
