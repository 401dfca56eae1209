//! Output parsers: bytes in, samples out.
