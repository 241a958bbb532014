//! Who calls.
//!
//! ```text
//!   authorization: Basic user:password ──Handshake──▶ authorization: Bearer token
//!   authorization: Bearer token        ─────────────▶ the user of the token
//!   none                               ─────────────▶ postgres
//! ```
//! What a caller says is a [`Claim`]; whether it is so, the rules and the catalog's passwords decide, as on the
//! PostgreSQL port (`sessions.rs`, [`crate::auth`]).

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

/// Who somebody says they are.
#[derive(Debug)]
pub(super) struct Claim {
    pub(super) user: String,
    pub(super) proof: Proof,
}

/// What shows it.
pub(super) enum Proof {
    None,
    Password(String),
    /// One that was given for a proof.
    Token(String),
}

impl std::fmt::Debug for Proof {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Proof(…)")
    }
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
    /// Who the sender of a request with these headers says it is.
    pub(super) fn claim(&self, headers: &HeaderMap) -> Result<Claim, Status> {
        let Some(value) = headers.get(AUTHORIZATION) else {
            return Ok(Claim { user: NOBODY.to_owned(), proof: Proof::None });
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
            return Ok(Claim { user, proof: Proof::Token(rest.to_owned()) });
        }
        if !scheme.eq_ignore_ascii_case("basic") {
            return Err(Status::unauthenticated(format!("no such authorization: {scheme}")));
        }
        let bytes = STANDARD.decode(rest).or_else(|_| STANDARD_NO_PAD.decode(rest));
        let text = bytes.ok().and_then(|bytes| String::from_utf8(bytes).ok()).ok_or_else(bad)?;
        let (user, password) = text.split_once(':').unwrap_or((&text, ""));
        if user.is_empty() {
            return Err(Status::unauthenticated("no user name was given"));
        }
        Ok(Claim { user: user.to_owned(), proof: Proof::Password(password.to_owned()) })
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
        let basic = format!("Basic {}", STANDARD.encode("anna:sec:ret"));
        let claim = users.claim(&headers(&basic)).expect("it can be read");
        assert_eq!(claim.user, "anna");
        assert!(matches!(claim.proof, Proof::Password(given) if given == "sec:ret"));
        let token = users.token(&Caller { user: claim.user, token: None });
        let again = users.claim(&headers(&format!("Bearer {token}"))).expect("known");
        assert_eq!(again.user, "anna");
        assert!(matches!(again.proof, Proof::Token(given) if given == token));
        let nobody = users.claim(&HeaderMap::new()).expect("anybody");
        assert!(nobody.user == "postgres" && matches!(nobody.proof, Proof::None));
    }

    #[test]
    fn what_cannot_be_read_is_nobody() {
        let users = Users::default();
        for bad in ["Basic", "Basic !!!", "Basic Og==", "Bearer 00", "Digest x", ""] {
            assert!(users.claim(&headers(bad)).is_err(), "{bad:?}");
        }
    }
}
