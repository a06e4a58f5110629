//! Random ids of calls, claims and dials.

use std::sync::{Arc, Mutex, PoisonError};

use fastrand::Rng;

use crate::error::Error;

/// Source of random ids: the operating system, or in tests a seed.
#[derive(Clone, Debug)]
pub struct RandomIds(Option<Arc<Mutex<Rng>>>);

impl RandomIds {
    /// Ids from the operating system's random numbers.
    #[must_use]
    pub const fn from_system() -> Self {
        Self(None)
    }

    /// Ids that are the same in every run with the same seed. Clones share the sequence.
    #[must_use]
    pub fn seeded(seed: u64) -> Self {
        Self(Some(Arc::new(Mutex::new(Rng::with_seed(seed)))))
    }

    /// Returns a random id of this many bytes, in hex.
    ///
    /// # Errors
    /// [`Error::Random`] if the operating system gives no random numbers.
    pub fn hex<const BYTES: usize>(&self) -> Result<String, Error> {
        let mut bytes = [0_u8; BYTES];
        match &self.0 {
            Some(rng) => rng.lock().unwrap_or_else(PoisonError::into_inner).fill(&mut bytes),
            None => getrandom::fill(&mut bytes).map_err(|error| Error::Random(error.to_string().into()))?,
        }
        Ok(hex::encode(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_the_system_differ_and_those_of_a_seed_repeat() {
        let system = RandomIds::from_system();
        let (one, other) = (system.hex::<16>().unwrap(), system.hex::<16>().unwrap());
        assert_ne!(one, other);
        assert!(one.len() == 32 && one.bytes().all(|byte| byte.is_ascii_hexdigit()), "{one}");
        let (first, again) = (RandomIds::seeded(7), RandomIds::seeded(7));
        assert_eq!(first.hex::<8>().unwrap(), again.hex::<8>().unwrap());
        assert_ne!(first.hex::<8>().unwrap(), first.hex::<8>().unwrap());
    }
}
