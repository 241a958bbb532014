//! What a role's password is checked against: the server's half of SCRAM-SHA-256 (RFC 5802, RFC 7677), in the
//! text form that PostgreSQL stores.
//!
//! ```text
//!   SCRAM-SHA-256$ iterations : salt $ StoredKey : ServerKey        base64
//!
//!   SaltedPassword = PBKDF2(password, salt, iterations)
//!   ClientKey = HMAC(SaltedPassword, "Client Key")     StoredKey = SHA-256(ClientKey)
//!   ServerKey = HMAC(SaltedPassword, "Server Key")
//! ```
//! Neither the password nor anything that would log in as its owner can be had from it.
//!
//! P1: secrets are compared in constant time.
//! P2: whoever does not exist has a verifier too ([`Verifier::mock`]): the same at each attempt, and of nobody's
//!     password, so that an exchange does not tell who exists.

use std::borrow::Cow;
use std::num::NonZeroU32;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::{digest, hmac, pbkdf2};
use subtle::ConstantTimeEq;

/// As PostgreSQL.
const ITERATIONS: NonZeroU32 = NonZeroU32::new(4096).expect("it is not zero");
const SALT_BYTES: usize = 16;
const PREFIX: &str = "SCRAM-SHA-256$";
/// Of a key and of a digest.
pub const KEY_BYTES: usize = 32;

/// What a password is checked against.
#[derive(Clone, PartialEq, Eq)]
pub struct Verifier {
    iterations: NonZeroU32,
    salt: Vec<u8>,
    stored_key: [u8; KEY_BYTES],
    server_key: [u8; KEY_BYTES],
}

impl std::fmt::Debug for Verifier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Verifier(…)")
    }
}

impl Verifier {
    /// Of a password, with a salt of its own.
    pub fn of(password: &str) -> Verifier {
        let salt: [u8; SALT_BYTES] = rand::random();
        Verifier::salted(password, salt.to_vec(), ITERATIONS)
    }

    fn salted(password: &str, salt: Vec<u8>, iterations: NonZeroU32) -> Verifier {
        let mut salted = [0; KEY_BYTES];
        let password = normalized(password);
        let algorithm = pbkdf2::PBKDF2_HMAC_SHA256;
        pbkdf2::derive(algorithm, iterations, &salt, password.as_bytes(), &mut salted);
        Verifier {
            iterations,
            salt,
            stored_key: sha256(&hmac(&salted, b"Client Key")),
            server_key: hmac(&salted, b"Server Key"),
        }
    }

    /// Of a text that PostgreSQL stores; `None` if it is none.
    pub fn parse(text: &str) -> Option<Verifier> {
        let (parameters, keys) = text.strip_prefix(PREFIX)?.split_once('$')?;
        let (iterations, salt) = parameters.split_once(':')?;
        let (stored, server) = keys.split_once(':')?;
        let key = |text: &str| STANDARD.decode(text).ok()?.try_into().ok();
        Some(Verifier {
            iterations: iterations.parse().ok()?,
            salt: STANDARD.decode(salt).ok().filter(|salt| !salt.is_empty())?,
            stored_key: key(stored)?,
            server_key: key(server)?,
        })
    }

    /// Of a user who has none [P2].
    pub fn mock(secret: &[u8; KEY_BYTES], user: &str) -> Verifier {
        let derived = |what: &str| hmac(&hmac(secret, what.as_bytes()), user.as_bytes());
        Verifier {
            iterations: ITERATIONS,
            salt: derived("salt")[..SALT_BYTES].to_vec(),
            // No password is known that has these.
            stored_key: derived("stored key"),
            server_key: derived("server key"),
        }
    }

    /// Whether a password is the one. It takes as long as PBKDF2 does.
    pub fn is_of(&self, password: &str) -> bool {
        let given = Verifier::salted(password, self.salt.clone(), self.iterations);
        given.stored_key.ct_eq(&self.stored_key).into()
    }

    /// The iterations of PBKDF2.
    pub fn iterations(&self) -> u32 {
        self.iterations.get()
    }

    /// The salt, as the exchange has it.
    pub fn salt_text(&self) -> String {
        STANDARD.encode(&self.salt)
    }

    /// Whether a client's proof for a conversation is right.
    pub fn proves(&self, conversation: &[u8], proof: &[u8; KEY_BYTES]) -> bool {
        let signature = hmac(&self.stored_key, conversation);
        let mut client_key = [0; KEY_BYTES];
        for (key, (signed, proof)) in client_key.iter_mut().zip(signature.iter().zip(proof)) {
            *key = signed ^ proof;
        }
        sha256(&client_key).ct_eq(&self.stored_key).into()
    }

    /// What proves to the client that the server knows it.
    pub fn signature(&self, conversation: &[u8]) -> [u8; KEY_BYTES] {
        hmac(&self.server_key, conversation)
    }
}

impl std::fmt::Display for Verifier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (salt, stored) = (self.salt_text(), STANDARD.encode(self.stored_key));
        write!(
            f,
            "{PREFIX}{}:{salt}${stored}:{}",
            self.iterations,
            STANDARD.encode(self.server_key)
        )
    }
}

/// SASLprep, where the password can be prepared; otherwise as it is, as PostgreSQL does.
fn normalized(password: &str) -> Cow<'_, str> {
    stringprep::saslprep(password).unwrap_or(Cow::Borrowed(password))
}

fn hmac(key: &[u8], message: &[u8]) -> [u8; KEY_BYTES] {
    let signed = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), message);
    signed.as_ref().try_into().expect("a SHA-256 has 32 bytes")
}

fn sha256(bytes: &[u8]) -> [u8; KEY_BYTES] {
    let digest = digest::digest(&digest::SHA256, bytes);
    digest.as_ref().try_into().expect("a SHA-256 has 32 bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// It has no keys.
    const CUT: &str = "SCRAM-SHA-256$4096:c2FsdHNhbHRzYWx0c2FsdA==$";

    #[test]
    fn the_example_of_rfc_7677_holds() {
        let salt = STANDARD.decode("W22ZaJ0SNY7soEsUEjb6gQ==").expect("base64");
        let verifier = Verifier::salted("pencil", salt, ITERATIONS);
        let conversation = "n=user,r=rOprNGfwEbeRWgbNEkqO,\
            r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,\
            c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
        let proof = STANDARD.decode("dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=");
        let mut proof: [u8; KEY_BYTES] = proof.expect("base64").try_into().expect("32 bytes");
        assert!(verifier.proves(conversation.as_bytes(), &proof));
        let signature = STANDARD.encode(verifier.signature(conversation.as_bytes()));
        assert_eq!(signature, "6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=");
        proof[7] ^= 1;
        assert!(!verifier.proves(conversation.as_bytes(), &proof));
    }

    #[test]
    fn what_is_stored_is_read_back() {
        let verifier = Verifier::of("sesame");
        let again = Verifier::parse(&verifier.to_string()).expect("its own text");
        assert_eq!(again, verifier);
        assert!(again.is_of("sesame") && !again.is_of("Sesame") && !again.is_of(""));
        assert_ne!(Verifier::of("sesame"), verifier, "each has a salt of its own");
        // SASLprep makes a no-break space a space.
        assert!(Verifier::of("a\u{a0}b").is_of("a b"));
        for bad in [CUT, "SCRAM-SHA-256$0:c2Fs$AA==:AA==", "md5abc", "", "SCRAM-SHA-256$x"] {
            assert_eq!(Verifier::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn who_does_not_exist_has_one_salt_of_his_own() {
        let mock = |user| Verifier::mock(&[7; KEY_BYTES], user);
        assert_eq!(mock("anna"), mock("anna"));
        assert_ne!(mock("anna").salt_text(), mock("otto").salt_text());
        assert_ne!(mock("anna"), Verifier::mock(&[8; KEY_BYTES], "anna"));
        assert_eq!(mock("anna").salt_text().len(), Verifier::of("x").salt_text().len());
    }
}
