//! The way to the program in a guest: one stream at a time, over a virtio port.

mod frame;
mod host;

pub(crate) use frame::{Decoder, Frame, MAX_DATA};
pub(crate) use host::{Channel, ChannelEvent};
