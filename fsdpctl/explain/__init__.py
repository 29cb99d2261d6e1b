"""Why a run or a log ended: rules as data, and the failure that came first among many ranks."""
