"""The families of T-conorms, one file each."""
