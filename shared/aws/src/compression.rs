//! Compression of the bodies in the inbox: zstd with a dictionary.
//!
//! zstd finds too few repetitions within a body of 5 KB. The dictionary supplies them: it holds the keys and the
//! frequent values of the providers' payloads, and phrases that people say on the phone. With it, a compressed
//! transcript is one third smaller.
//!
//! **A dictionary never changes once an item was written with it**, because the item can be decompressed only with the
//! same dictionary. Each item stores the number of its dictionary. A better dictionary becomes a new file with the next
//! number, and the old files stay.

use std::cell::Cell;
use std::io;
use std::sync::LazyLock;

use zstd::bulk::{Compressor, Decompressor};
use zstd::dict::{DecoderDictionary, EncoderDictionary};

use crate::error::Error;

/// Level of zstd. It takes about 90 µs for a body of 5 KB, with and without a dictionary. A higher level takes twice as
/// long and saves 2 % more.
const LEVEL: i32 = 6;
/// Number of the dictionary for new items.
const NEWEST: u32 = 1;
const DICTIONARY_1: &[u8] = include_bytes!("dictionary-1.txt");

static ENCODER: LazyLock<EncoderDictionary<'static>> = LazyLock::new(|| EncoderDictionary::copy(DICTIONARY_1, LEVEL));
/// Size of the largest body after which the compressor is kept. Its memory grows with the body, to some MB.
const KEPT_BODY_BYTES_MAX: usize = 16 * 1024;

thread_local! {
    /// Compressor for the next body. A new one would allocate and fault in more than 100 KB for each body.
    static COMPRESSOR: Cell<Option<Compressor<'static>>> = const { Cell::new(None) };
}
static DECODER_1: LazyLock<DecoderDictionary<'static>> = LazyLock::new(|| DecoderDictionary::copy(DICTIONARY_1));

/// Compressed body.
pub(crate) struct Compressed {
    pub(crate) bytes: Vec<u8>,
    /// Number of the dictionary.
    pub(crate) dictionary: u32,
}

/// Prepares the dictionary for writing. That takes as long as compressing a few bodies.
pub(crate) fn warm_up() {
    LazyLock::force(&ENCODER);
}

/// Compresses a body with the newest dictionary.
///
/// # Errors
/// Errors of zstd. None is expected.
pub(crate) fn compress(body: &[u8]) -> io::Result<Compressed> {
    let mut compressor = match COMPRESSOR.take() {
        Some(kept) => kept,
        None => Compressor::with_prepared_dictionary(&ENCODER)?,
    };
    let bytes = compressor.compress(body)?;
    if body.len() <= KEPT_BODY_BYTES_MAX {
        COMPRESSOR.set(Some(compressor));
    }
    Ok(Compressed { bytes, dictionary: NEWEST })
}

/// Compresses content that is added to an item, with the dictionary that the item was written with. `None` if a newer program wrote the
/// item, with a dictionary that this one does not have.
///
/// # Errors
/// Errors of zstd. None is expected.
pub(crate) fn compress_with(content: &[u8], dictionary: Option<u32>) -> io::Result<Option<Vec<u8>>> {
    match dictionary {
        None => Compressor::new(LEVEL)?.compress(content).map(Some),
        Some(NEWEST) => Ok(Some(compress(content)?.bytes)),
        // A further dictionary adds an arm for the one before it.
        Some(_) => Ok(None),
    }
}

/// Returns the original body, which may have at most `bytes_max` bytes. `dictionary` is `None` for an item that was
/// written before there was a dictionary.
///
/// # Errors
/// [`Error::NewerSchema`] if a newer program wrote the item, with a dictionary that this one does not have.
/// [`Error::DecodeInbox`] if the bytes are corrupt or too many.
pub(crate) fn decompress(compressed: &[u8], dictionary: Option<u32>, bytes_max: usize) -> Result<Vec<u8>, Error> {
    let decompressor = match dictionary {
        None => Decompressor::new(),
        Some(1) => Decompressor::with_prepared_dictionary(&DECODER_1),
        Some(newer) => return Err(Error::NewerSchema(newer)),
    };
    let body = decompressor.and_then(|mut decompressor| decompressor.decompress(compressed, bytes_max));
    body.map_err(|_| Error::DecodeInbox("the body"))
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
            "existing items need this dictionary: add a second one"
        );
    }

    #[test]
    fn body_reads_back_as_it_was() {
        let long = BODY.repeat(5_000);
        for body in [b"".as_slice(), b"\xff", BODY, &long, DICTIONARY_1] {
            let Compressed { bytes, dictionary } = compress(body).unwrap();
            assert_eq!(decompress(&bytes, Some(dictionary), BYTES_MAX).unwrap(), body);
        }
        assert!(compress(BODY).unwrap().bytes.len() < BODY.len() / 2, "the dictionary holds most of it");
    }

    #[test]
    fn result_does_not_depend_on_earlier_bodies() {
        let first = compress(BODY).unwrap().bytes;
        let long = BODY.repeat(5_000);
        for earlier in [b"".as_slice(), BODY, &long, DICTIONARY_1] {
            compress(earlier).unwrap();
            assert_eq!(compress(BODY).unwrap().bytes, first);
        }
    }

    #[test]
    fn what_was_written_before_there_was_a_dictionary_is_read_without() {
        let before = zstd::bulk::compress(BODY, 6).unwrap();
        assert_eq!(decompress(&before, None, BYTES_MAX).unwrap(), BODY);
    }

    #[test]
    fn what_an_older_program_wrote_stays_readable() {
        // Bytes that the first release wrote.
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
    fn content_is_added_to_an_item_of_every_age() {
        for dictionary in std::iter::once(None).chain((1..=NEWEST).map(Some)) {
            let added = compress_with(BODY, dictionary).unwrap().unwrap();
            assert_eq!(decompress(&added, dictionary, BYTES_MAX).unwrap(), BODY, "{dictionary:?}");
        }
        assert_eq!(compress_with(BODY, Some(NEWEST + 1)).unwrap(), None);
    }

    #[test]
    fn garbled_body_is_an_error() {
        let Compressed { mut bytes, dictionary } = compress(BODY).unwrap();
        bytes.pop();
        assert!(matches!(decompress(&bytes, Some(dictionary), BYTES_MAX), Err(Error::DecodeInbox(_))));
        assert!(matches!(decompress(b"none", None, BYTES_MAX), Err(Error::DecodeInbox(_))));
    }
}
