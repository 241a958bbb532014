//! Who calls.
//!
//! ```text
//!   authorization: Basic user:password ──Handshake──▶ authorization: Bearer token
//!   authorization: Bearer token        ─────────────▶ the user of the token
//!   none                               ─────────────▶ postgres
//! ```
//! This is the one place where a user is accepted: any name, as on the PostgreSQL port, and with any
//! password, for there are none yet and [`crate::config`] refuses every address but loopback.

use std::collections::{HashMap, VecDeque};

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use hyper::HeaderMap;
use hyper::header::AUTHORIZATION;
use parking_lot::Mutex;
use tonic::Status;

use super::handles::Handle;

/// The user of whoever does not say.
const NOBODY: &str = "postgres";
/// The oldest tokens are forgotten beyond so many.
const MOST_TOKENS: usize = 100_000;

/// A caller.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Caller {
    pub(super) user: String,
    /// What came after `Bearer`.
    pub(super) token: Option<String>,
}

/// The tokens that have been given.
#[derive(Debug, Default)]
pub(super) struct Users(Mutex<Tokens>);

#[derive(Debug, Default)]
struct Tokens {
    users: HashMap<String, String>,
    oldest: VecDeque<String>,
}

impl Users {
    /// Who sends a request with these headers.
    pub(super) fn caller(&self, headers: &HeaderMap) -> Result<Caller, Status> {
        let Some(value) = headers.get(AUTHORIZATION) else {
            return Ok(Caller { user: NOBODY.to_owned(), token: None });
        };
        let bad = || Status::unauthenticated("the authorization header cannot be read");
        let value = value.to_str().map_err(|_| bad())?;
        let (scheme, rest) = value.split_once(' ').ok_or_else(bad)?;
        let rest = rest.trim();
        if scheme.eq_ignore_ascii_case("bearer") {
            let user = self.0.lock().users.get(rest).cloned();
            let user = user.ok_or_else(|| {
                Status::unauthenticated("this bearer token is not known: connect again")
            })?;
            return Ok(Caller { user, token: Some(rest.to_owned()) });
        }
        if !scheme.eq_ignore_ascii_case("basic") {
            return Err(Status::unauthenticated(format!("no such authorization: {scheme}")));
        }
        let bytes = STANDARD.decode(rest).or_else(|_| STANDARD_NO_PAD.decode(rest));
        let text = bytes.ok().and_then(|bytes| String::from_utf8(bytes).ok()).ok_or_else(bad)?;
        let (user, password) = text.split_once(':').unwrap_or((&text, ""));
        Ok(Caller { user: accept(user, password)?, token: None })
    }

    /// A token for a caller.
    pub(super) fn token(&self, caller: &Caller) -> String {
        let token = Handle::new().hex();
        let mut tokens = self.0.lock();
        tokens.users.insert(token.clone(), caller.user.clone());
        tokens.oldest.push_back(token.clone());
        if tokens.oldest.len() > MOST_TOKENS
            && let Some(oldest) = tokens.oldest.pop_front()
        {
            tokens.users.remove(&oldest);
        }
        token
    }
}

/// The user of this name and password. No password is looked at while users have none.
fn accept(user: &str, _password: &str) -> Result<String, Status> {
    match user.is_empty() {
        true => Err(Status::unauthenticated("no user name was given")),
        false => Ok(user.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(authorization: &str) -> HeaderMap {
        let value = authorization.parse().expect("a header");
        HeaderMap::from_iter([(AUTHORIZATION, value)])
    }

    #[test]
    fn a_token_is_its_users() {
        let users = Users::default();
        let basic = format!("Basic {}", STANDARD.encode("anna:secret"));
        let caller = users.caller(&headers(&basic)).expect("she may");
        assert_eq!((caller.user.as_str(), &caller.token), ("anna", &None));
        let token = users.token(&caller);
        let again = users.caller(&headers(&format!("Bearer {token}"))).expect("known");
        assert_eq!((again.user.as_str(), again.token), ("anna", Some(token)));
        assert_eq!(users.caller(&HeaderMap::new()).expect("anybody").user, "postgres");
    }

    #[test]
    fn what_cannot_be_read_is_nobody() {
        let users = Users::default();
        for bad in ["Basic", "Basic !!!", "Basic Og==", "Bearer 00", "Digest x", ""] {
            assert!(users.caller(&headers(bad)).is_err(), "{bad:?}");
        }
    }
}
