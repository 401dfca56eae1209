//! Tests of the store, on real files, with real processes.

#[cfg(test)]
mod conformance;
#[cfg(test)]
mod disk;
#[cfg(test)]
mod kill;
#[cfg(test)]
mod model;
#[cfg(test)]
mod open;
#[cfg(test)]
mod sample;
#[cfg(test)]
mod scratch;
#[cfg(test)]
mod series;
#[cfg(test)]
mod writer;
