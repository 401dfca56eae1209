//! The matrix file: parse, check, expand, plan.
