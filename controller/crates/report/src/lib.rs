//! Statistics, tables and exports of stored results.
