//! The crate through its public interface: expansion, plan, rendering, metrics, identity, options, properties.

#[cfg(test)]
mod boots;
#[cfg(test)]
mod common;
#[cfg(test)]
mod expansion;
#[cfg(test)]
mod hosts;
#[cfg(test)]
mod identity;
#[cfg(test)]
mod messages;
#[cfg(test)]
mod metrics;
#[cfg(test)]
mod options;
#[cfg(test)]
mod planning;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod rendering;
#[cfg(test)]
mod several;
#[cfg(test)]
mod soaks;
#[cfg(test)]
mod spread;
