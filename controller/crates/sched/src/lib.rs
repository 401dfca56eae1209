//! The state machine of a run: attempts, leases, barriers, retries.
