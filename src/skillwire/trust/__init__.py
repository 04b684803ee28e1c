"""May it be used? Verification, approval and cleaning: values in, decisions out, no I/O."""
