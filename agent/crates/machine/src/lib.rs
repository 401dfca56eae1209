//! Facts and counters of the machine the agent runs on.
