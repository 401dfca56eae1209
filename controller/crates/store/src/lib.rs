//! Durable results: runs, attempts, samples and the journal.
