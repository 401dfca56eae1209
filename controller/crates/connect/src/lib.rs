//! Ways to reach an agent; each ends in a tonic channel.
