//! The controller: drives matrices through agents and reports what was measured.
