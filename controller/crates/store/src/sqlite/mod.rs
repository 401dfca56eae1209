//! The store on disk: SQLite in WAL mode, every commit synced.

mod codec;
mod open;
mod read;
mod schema;
mod write;

pub use open::{OpenError, SqliteStore};
pub use schema::SCHEMA_VERSION;
