//! What is said over the virtio port between the controller and `drover-init`.
//!
//! A port is one stream of bytes without a beginning: what one side wrote before the other listened, or before the guest
//! rebooted, may be lost or be found in it later. So the guest says [`Frame::Hello`] with its boot id until it hears
//! [`Frame::Ready`] with the same, and both sides skip what comes before those. From then on frames follow each other
//! without gaps, until the guest boots again.
//!
//! A frame is kind (1 byte), 0 (1 byte), length (2 bytes), stream (4 bytes), all little-endian, and `length` bytes.

/// Most bytes in one [`Frame::Data`].
pub(crate) const MAX_DATA: usize = 16 << 10;

/// Bytes before those of the contents.
const HEADER: usize = 8;

/// Begins the contents of hello and ready: long enough not to occur by chance in what is skipped.
const MARK: &[u8] = b"\ndrover-vm channel 1\n";

/// A boot id has this many characters (`random(4)`).
const BOOT_ID: usize = 36;

/// One thing said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Frame {
    /// Guest: the program serves. Repeated until it is answered.
    Hello {
        /// `/proc/sys/kernel/random/boot_id`.
        boot_id: String,
    },
    /// Controller: the answer.
    Ready {
        /// As in the hello.
        boot_id: String,
    },
    /// Controller: connect to the program, and end the stream before.
    Open(u32),
    /// Either: bytes of a stream.
    Data(u32, Vec<u8>),
    /// Either: the stream has ended.
    Close(u32),
    /// Controller: end the program and power off.
    PowerOff,
}

/// Bytes that are no frame where one must be.
#[derive(Debug, thiserror::Error)]
#[error("the virtio port carries something that is no frame of drover")]
pub(crate) struct Garbled;

impl Frame {
    fn kind(&self) -> u8 {
        match self {
            Self::Hello { .. } => 1,
            Self::Ready { .. } => 2,
            Self::Open(_) => 3,
            Self::Data(..) => 4,
            Self::Close(_) => 5,
            Self::PowerOff => 6,
        }
    }

    /// As it travels. Data longer than [`MAX_DATA`] must have been split.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let (stream, contents) = match self {
            Self::Hello { boot_id } | Self::Ready { boot_id } => (0, [MARK, boot_id.as_bytes()].concat()),
            Self::Open(stream) | Self::Close(stream) => (*stream, Vec::new()),
            Self::Data(stream, bytes) => (*stream, bytes.clone()),
            Self::PowerOff => (0, Vec::new()),
        };
        let length = u16::try_from(contents.len()).unwrap_or(u16::MAX);
        let mut bytes = vec![self.kind(), 0];
        bytes.extend(length.to_le_bytes());
        bytes.extend(stream.to_le_bytes());
        bytes.extend(contents);
        bytes
    }
}

/// Turns what arrives into frames.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    bytes: Vec<u8>,
    in_step: bool,
}

impl Decoder {
    /// Takes bytes that have arrived.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend(bytes);
    }

    /// Skips everything up to the next hello or ready: the other side has begun anew.
    pub(crate) fn lose_step(&mut self) {
        self.in_step = false;
    }

    /// The next frame, if all of it is there.
    ///
    /// # Errors
    /// When there is something else. Until the next hello or ready everything is skipped then.
    pub(crate) fn next(&mut self) -> Result<Option<Frame>, Garbled> {
        if !self.in_step && !self.find_mark() {
            return Ok(None);
        }
        let Some(header) = self.bytes.first_chunk::<HEADER>() else { return Ok(None) };
        let [kind, zero, l0, l1, s0, s1, s2, s3] = *header;
        let length = usize::from(u16::from_le_bytes([l0, l1]));
        let stream = u32::from_le_bytes([s0, s1, s2, s3]);
        if zero != 0 || length > MAX_DATA || !(1..=6).contains(&kind) {
            self.in_step = false;
            return Err(Garbled);
        }
        let Some(contents) = self.bytes.get(HEADER..HEADER + length) else { return Ok(None) };
        let contents = contents.to_vec();
        self.bytes.drain(..HEADER + length);
        let boot_id = || {
            let text = contents.strip_prefix(MARK)?;
            Some(std::str::from_utf8(text).ok()?.to_owned())
        };
        let frame = match kind {
            1 => boot_id().map(|boot_id| Frame::Hello { boot_id }),
            2 => boot_id().map(|boot_id| Frame::Ready { boot_id }),
            3 => Some(Frame::Open(stream)),
            4 => Some(Frame::Data(stream, contents)),
            5 => Some(Frame::Close(stream)),
            _ => Some(Frame::PowerOff),
        };
        match frame {
            Some(frame) => {
                self.in_step = true;
                Ok(Some(frame))
            }
            None => {
                self.in_step = false;
                Err(Garbled)
            }
        }
    }

    /// Drops what comes before a hello or ready; whether its beginning is there.
    fn find_mark(&mut self) -> bool {
        let found = self.bytes.windows(MARK.len()).position(|window| window == MARK);
        match found {
            Some(at) if at >= HEADER => {
                self.bytes.drain(..at - HEADER);
                let length = u16::try_from(MARK.len() + BOOT_ID).unwrap_or(0).to_le_bytes();
                // A mark without its header is skipped together with it.
                if self.bytes.get(1..4) == Some(&[0, length[0], length[1]]) {
                    return true;
                }
                self.bytes.drain(..HEADER + MARK.len());
                false
            }
            Some(at) => {
                self.bytes.drain(..at + MARK.len());
                false
            }
            None => {
                // The beginning of one may be at the end.
                let keep = HEADER + MARK.len();
                self.bytes.drain(..self.bytes.len().saturating_sub(keep));
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{BOOT_ID, Decoder, Frame, MAX_DATA};

    fn hello(digit: &str) -> Frame {
        Frame::Hello { boot_id: digit.repeat(BOOT_ID) }
    }

    fn all(decoder: &mut Decoder) -> Vec<Frame> {
        std::iter::from_fn(|| decoder.next().unwrap()).collect()
    }

    fn frame() -> impl Strategy<Value = Frame> {
        prop_oneof![
            "[0-9a-f]{36}".prop_map(|boot_id| Frame::Hello { boot_id }),
            "[0-9a-f]{36}".prop_map(|boot_id| Frame::Ready { boot_id }),
            any::<u32>().prop_map(Frame::Open),
            any::<u32>().prop_map(Frame::Close),
            (any::<u32>(), proptest::collection::vec(any::<u8>(), 0..MAX_DATA))
                .prop_map(|(stream, bytes)| Frame::Data(stream, bytes)),
            Just(Frame::PowerOff),
        ]
    }

    proptest! {
        #[test]
        fn expect_the_frames_when_they_arrive_in_pieces_after_rubbish(
            rubbish in proptest::collection::vec(any::<u8>(), 0..200),
            frames in proptest::collection::vec(frame(), 0..6),
            piece in 1_usize..5000,
        ) {
            let mut bytes = rubbish;
            bytes.extend(hello("7").encode());
            bytes.extend(frames.iter().flat_map(Frame::encode));
            let mut decoder = Decoder::default();
            let mut found = Vec::new();
            for piece in bytes.chunks(piece) {
                decoder.push(piece);
                found.extend(all(&mut decoder));
            }
            prop_assert_eq!(found.remove(0), hello("7"));
            prop_assert_eq!(found, frames);
        }
    }

    #[test]
    fn expect_a_fault_and_then_the_next_hello_when_the_guest_begins_anew_unseen() {
        let mut decoder = Decoder::default();
        decoder.push(&hello("1").encode());
        decoder.push(&[99, 1, 0, 0, 0, 0, 0, 0, 0]);
        decoder.push(&hello("2").encode());
        assert_eq!(decoder.next().unwrap(), Some(hello("1")));
        assert!(decoder.next().is_err());
        assert_eq!(all(&mut decoder), [hello("2")]);
    }

    #[test]
    fn expect_the_rest_of_a_frame_skipped_when_the_guest_is_known_to_begin_anew() {
        let mut decoder = Decoder::default();
        let cut = Frame::Data(1, vec![0; 900]).encode();
        decoder.push(&[hello("1").encode(), cut[..300].to_vec()].concat());
        assert_eq!(all(&mut decoder), [hello("1")]);
        decoder.lose_step();
        decoder.push(&[b"SeaBIOS".to_vec(), hello("2").encode(), Frame::Close(1).encode()].concat());
        assert_eq!(all(&mut decoder), [hello("2"), Frame::Close(1)]);
    }
}
