//! Sessions: who may see the pages.
//!
//! **A link opens the console once.** Its token is exchanged for a cookie, which lasts twelve hours. The console keeps only hashes
//! of both, and forgets everything when it stops.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// Time for which a session lasts.
const LIFE: Duration = Duration::from_secs(12 * 60 * 60);
/// Random bytes of tokens and secrets.
const SECRET_BYTES: usize = 32;
/// Searches by number that a session remembers.
const SEARCHES_MAX: usize = 100;

type Hash = [u8; 32];

/// The system has no random numbers.
#[derive(Debug, thiserror::Error)]
#[error("could not draw a secret")]
pub struct LinkError(#[from] getrandom::Error);

/// All sessions of a console, and the tokens of the links that were not opened yet.
#[derive(Default)]
pub(crate) struct Sessions {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    tokens: Vec<Hash>,
    sessions: HashMap<Hash, Stored>,
}

struct Stored {
    ends_at: Instant,
    /// Texts that were searched for, by their handles. They may be phone numbers, so no URL holds them.
    searches: Vec<(String, String)>,
}

/// One browser's session.
#[derive(Clone)]
pub(crate) struct Session {
    secret: String,
}

impl fmt::Debug for Sessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sessions").finish_non_exhaustive()
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").finish_non_exhaustive()
    }
}

impl Session {
    /// Secret of the session, which its cookie holds.
    pub(crate) fn secret(&self) -> &str {
        &self.secret
    }

    /// Returns the token that a form must carry to be accepted. `purpose` names what the form does, for example the id of the plan
    /// that it runs: the token of one form is no good for another.
    pub(crate) fn form_token(&self, purpose: &str) -> String {
        hex::encode(Sha256::new().chain_update(&self.secret).chain_update(b"\0").chain_update(purpose).finalize())
    }

    /// True if the token is the one of this session for this purpose.
    pub(crate) fn accepts(&self, purpose: &str, token: &str) -> bool {
        self.form_token(purpose).as_bytes().ct_eq(token.as_bytes()).into()
    }
}

impl Sessions {
    /// Draws a token that opens one session.
    pub(crate) fn new_token(&self) -> Result<String, LinkError> {
        let token = random()?;
        self.lock().tokens.push(hash(&token));
        Ok(token)
    }

    /// Opens a session with a token, which is then used up. `None` if the token is not good.
    pub(crate) fn open(&self, token: &str) -> Result<Option<Session>, LinkError> {
        let secret = random()?;
        let now = Instant::now();
        let given = hash(token);
        let mut inner = self.lock();
        let before = inner.tokens.len();
        inner.tokens.retain(|known| !bool::from(known.ct_eq(&given)));
        if inner.tokens.len() == before {
            return Ok(None);
        }
        inner.sessions.retain(|_, session| session.ends_at > now);
        inner.sessions.insert(hash(&secret), Stored { ends_at: now + LIFE, searches: Vec::new() });
        Ok(Some(Session { secret }))
    }

    /// Returns the session with this secret. `None` if there is none, or it has ended.
    pub(crate) fn find(&self, secret: &str) -> Option<Session> {
        let inner = self.lock();
        // The map compares hashes of secrets, so the time of a comparison tells nothing about a secret.
        inner.sessions.get(&hash(secret)).filter(|session| session.ends_at > Instant::now())?;
        Some(Session { secret: secret.to_owned() })
    }

    /// Keeps a text that was searched for. Returns its handle, which may stand in a URL.
    pub(crate) fn keep_search(&self, session: &Session, text: &str) -> Result<String, LinkError> {
        let handle = random()?.chars().take(16).collect::<String>();
        if let Some(stored) = self.lock().sessions.get_mut(&hash(session.secret())) {
            stored.searches.push((handle.clone(), text.to_owned()));
            let over = stored.searches.len().saturating_sub(SEARCHES_MAX);
            stored.searches.drain(..over);
        }
        Ok(handle)
    }

    /// Returns the text of a handle. `None` if the session has none.
    pub(crate) fn search(&self, session: &Session, handle: &str) -> Option<String> {
        let inner = self.lock();
        let stored = inner.sessions.get(&hash(session.secret()))?;
        stored.searches.iter().find(|(known, _)| known == handle).map(|(_, text)| text.clone())
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // No code panics while it holds the lock.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn hash(secret: &str) -> Hash {
    Sha256::digest(secret.as_bytes()).into()
}

fn random() -> Result<String, LinkError> {
    let mut bytes = [0; SECRET_BYTES];
    getrandom::fill(&mut bytes)?;
    Ok(hex::encode(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_opens_one_session() {
        let sessions = Sessions::default();
        let token = sessions.new_token().unwrap();
        assert!(sessions.open("").unwrap().is_none() && sessions.open("other").unwrap().is_none());
        let session = sessions.open(&token).unwrap().unwrap();
        assert!(sessions.open(&token).unwrap().is_none(), "the token is used up");
        assert!(sessions.find(session.secret()).is_some());
        assert!(sessions.find("").is_none() && sessions.find(&token).is_none());
    }

    #[test]
    fn form_token_is_good_for_one_purpose_of_one_session() {
        let sessions = Sessions::default();
        let open = || sessions.open(&sessions.new_token().unwrap()).unwrap().unwrap();
        let (one, other) = (open(), open());
        let token = one.form_token("run p-1");
        assert!(one.accepts("run p-1", &token));
        assert!(!one.accepts("run p-2", &token) && !other.accepts("run p-1", &token) && !one.accepts("run p-1", ""));
    }

    #[test]
    fn search_is_kept_for_its_session() {
        let sessions = Sessions::default();
        let open = || sessions.open(&sessions.new_token().unwrap()).unwrap().unwrap();
        let (one, other) = (open(), open());
        let handle = sessions.keep_search(&one, "+447700900123").unwrap();
        assert_eq!(sessions.search(&one, &handle).as_deref(), Some("+447700900123"));
        assert_eq!(sessions.search(&other, &handle), None);
        for _ in 0..SEARCHES_MAX {
            sessions.keep_search(&one, "x").unwrap();
        }
        assert_eq!(sessions.search(&one, &handle), None, "the oldest goes first");
    }
}
