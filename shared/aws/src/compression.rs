//! Bodies as the inbox keeps them: zstd, with a dictionary of what such bodies are made of.
//!
//! A body of 5 KB is too short for a compressor to learn from. The dictionary is what it would have learned: the keys and the
//! frequent values of the providers' payloads, and what people say on the phone. With it a transcript takes a third less.
//!
//! **A dictionary never changes once an item was written with it**: the item can be read with the same bytes alone. What was
//! written names the dictionary by its number; a better one is a further file under the next number, beside all before it.

use std::io;
use std::sync::LazyLock;

use zstd::bulk::{Compressor, Decompressor};
use zstd::dict::{DecoderDictionary, EncoderDictionary};

use crate::error::Error;

/// About 90 µs for a body of 5 KB, no more than without a dictionary; a higher level takes twice as long for 2 % less.
const LEVEL: i32 = 6;
/// What is written now is written with this one.
const NEWEST: u32 = 1;
const DICTIONARY_1: &[u8] = include_bytes!("dictionary-1.txt");

static ENCODER: LazyLock<EncoderDictionary<'static>> = LazyLock::new(|| EncoderDictionary::copy(DICTIONARY_1, LEVEL));
static DECODER_1: LazyLock<DecoderDictionary<'static>> = LazyLock::new(|| DecoderDictionary::copy(DICTIONARY_1));

/// A compressed body.
pub(crate) struct Compressed {
    pub(crate) bytes: Vec<u8>,
    /// The number of the dictionary.
    pub(crate) dictionary: u32,
}

/// Prepares the dictionary for writing, which takes as long as to compress a few bodies.
pub(crate) fn warm_up() {
    LazyLock::force(&ENCODER);
}

/// # Errors
/// Whatever zstd says: it has no reason to refuse a body.
pub(crate) fn compress(body: &[u8]) -> io::Result<Compressed> {
    let bytes = Compressor::with_prepared_dictionary(&ENCODER)?.compress(body)?;
    Ok(Compressed { bytes, dictionary: NEWEST })
}

/// The body again, of at most so many bytes. Without a dictionary it was written before there was one.
///
/// # Errors
/// [`Error::NewerSchema`] if a newer program wrote it, with a dictionary that this one does not have;
/// [`Error::DecodeInbox`] if it is garbled.
pub(crate) fn decompress(compressed: &[u8], dictionary: Option<u32>, bytes_max: usize) -> Result<Vec<u8>, Error> {
    let decompressor = match dictionary {
        None => Decompressor::new(),
        Some(1) => Decompressor::with_prepared_dictionary(&DECODER_1),
        Some(newer) => return Err(Error::NewerSchema(newer)),
    };
    let body = decompressor.and_then(|mut decompressor| decompressor.decompress(compressed, bytes_max));
    body.map_err(|_| Error::DecodeInbox("its body"))
}

#[cfg(test)]
mod tests {
    use sha2::{Digest, Sha256};

    use super::*;

    const BYTES_MAX: usize = 1 << 20;
    const BODY: &[u8] = br#"{"event":"call_ended","call":{"transcript":"Agent: Hello, how can I help you today?"}}"#;

    #[test]
    fn dictionary_never_changes() {
        let hash = hex::encode(Sha256::digest(DICTIONARY_1));
        assert_eq!(
            hash, "ce52a058f46babd1c90a6416a1c35134483d1dbe2d98a6e0307d03a81b99f53e",
            "items were written with it: make a second one"
        );
    }

    #[test]
    fn body_reads_back_as_it_was() {
        let long = BODY.repeat(5_000);
        for body in [b"".as_slice(), b"\xff", BODY, &long, DICTIONARY_1] {
            let Compressed { bytes, dictionary } = compress(body).unwrap();
            assert_eq!(decompress(&bytes, Some(dictionary), BYTES_MAX).unwrap(), body);
        }
        assert!(compress(BODY).unwrap().bytes.len() < BODY.len() / 2, "most of it stands in the dictionary");
    }

    #[test]
    fn what_was_written_before_there_was_a_dictionary_is_read_without() {
        let before = zstd::bulk::compress(BODY, 6).unwrap();
        assert_eq!(decompress(&before, None, BYTES_MAX).unwrap(), BODY);
    }

    #[test]
    fn what_an_older_program_wrote_stays_readable() {
        // As the first release wrote it.
        let written = "28b52ffd2056dd000048746f6461793f227d7d05400050794a46a8638a27803687e63539";
        assert_eq!(decompress(&hex::decode(written).unwrap(), Some(1), BYTES_MAX).unwrap(), BODY);
    }

    #[test]
    fn dictionary_of_a_newer_program_is_waited_for() {
        let compressed = compress(BODY).unwrap();
        let unknown = decompress(&compressed.bytes, Some(NEWEST + 1), BYTES_MAX);
        assert!(matches!(unknown, Err(Error::NewerSchema(2))), "{unknown:?}");
    }

    #[test]
    fn garbled_body_is_an_error() {
        let Compressed { mut bytes, dictionary } = compress(BODY).unwrap();
        bytes.pop();
        assert!(matches!(decompress(&bytes, Some(dictionary), BYTES_MAX), Err(Error::DecodeInbox(_))));
        assert!(matches!(decompress(b"none", None, BYTES_MAX), Err(Error::DecodeInbox(_))));
    }
}
