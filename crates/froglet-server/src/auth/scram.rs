//! The server's side of SCRAM-SHA-256 (RFC 5802, RFC 7677), with channel binding by tls-server-end-point
//! (RFC 5929).
//!
//! ```text
//!   client-first   n,,n=,r=abc                         abc: the client's nonce
//!   server-first   r=abcXYZ,s=salt,i=4096              XYZ: ours
//!   client-final   c=biws,r=abcXYZ,p=proof             c: what came before the first n=, and the binding
//!   server-final   v=signature
//!
//!   conversation = client-first without n,, + "," + server-first + "," + client-final without ,p=…
//! ```
//! The user's name is that of the startup message; what stands here is ignored, as PostgreSQL does.
//!
//! S1: every byte of a client is looked at before it is believed; nothing here panics on any of them.
//! S2: an exchange with somebody who has no password goes to its end like any other.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use froglet_sql::password::{KEY_BYTES, Verifier};

/// Without and with channel binding.
pub const PLAIN: &str = "SCRAM-SHA-256";
/// With channel binding.
pub const PLUS: &str = "SCRAM-SHA-256-PLUS";

const NONCE_BYTES: usize = 18;

/// Why an exchange ends before its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// 08P01: it is no SCRAM message.
    Malformed(&'static str),
    /// 28000: the channel is not the one that the client sees.
    Binding(&'static str),
}

/// An exchange under way: the client's final message is waited for.
#[derive(Debug)]
pub struct Exchange {
    /// What `c=` must be, encoded.
    binding: String,
    nonce: String,
    first_bare: String,
    /// The answer to the client's first message.
    pub server_first: String,
}

impl Exchange {
    /// Takes the client's first message. `end_point` is the hash of the server's certificate, where TLS has one.
    pub fn begin(
        mechanism: &str,
        first: &[u8],
        verifier: &Verifier,
        end_point: Option<&[u8]>,
    ) -> Result<Exchange, Refusal> {
        let nonce = STANDARD.encode(rand::random::<[u8; NONCE_BYTES]>());
        Exchange::begin_with(mechanism, first, verifier, end_point, &nonce)
    }

    fn begin_with(
        mechanism: &str,
        first: &[u8],
        verifier: &Verifier,
        end_point: Option<&[u8]>,
        nonce: &str,
    ) -> Result<Exchange, Refusal> {
        let first = std::str::from_utf8(first).map_err(|_| Refusal::Malformed("not UTF-8"))?;
        let (flag, rest) = first.split_once(',').ok_or(Refusal::Malformed("no binding flag"))?;
        let (authorize, bare) = rest.split_once(',').ok_or(Refusal::Malformed("no identity"))?;
        if !authorize.is_empty() {
            return Err(Refusal::Malformed("an authorization identity is not supported"));
        }
        let mut bound = format!("{flag},,").into_bytes();
        bound.extend_from_slice(check_flag(mechanism, flag, end_point)?);
        let mut attributes = bare.split(',');
        // A mandatory extension comes first, and none is known.
        if !attributes.next().is_some_and(|name| name.starts_with("n=")) {
            return Err(Refusal::Malformed("no user name"));
        }
        let theirs = attributes.next().and_then(|nonce| nonce.strip_prefix("r="));
        let printable =
            |nonce: &&str| !nonce.is_empty() && nonce.bytes().all(|b| b.is_ascii_graphic());
        let theirs = theirs.filter(printable).ok_or(Refusal::Malformed("no nonce"))?;
        let nonce = format!("{theirs}{nonce}");
        let (salt, iterations) = (verifier.salt_text(), verifier.iterations());
        Ok(Exchange {
            binding: STANDARD.encode(bound),
            server_first: format!("r={nonce},s={salt},i={iterations}"),
            nonce,
            first_bare: bare.to_owned(),
        })
    }

    /// Takes the client's final message. The answer to it, if it proves the password.
    pub fn finish(&self, last: &[u8], verifier: &Verifier) -> Result<Option<String>, Refusal> {
        let last = std::str::from_utf8(last).map_err(|_| Refusal::Malformed("not UTF-8"))?;
        let (without, proof) = last.rsplit_once(",p=").ok_or(Refusal::Malformed("no proof"))?;
        let mut attributes = without.split(',');
        let binding = attributes.next().and_then(|binding| binding.strip_prefix("c="));
        let nonce = attributes.next().and_then(|nonce| nonce.strip_prefix("r="));
        let (Some(binding), Some(nonce)) = (binding, nonce) else {
            return Err(Refusal::Malformed("no binding or no nonce"));
        };
        if binding != self.binding {
            return Err(Refusal::Binding("SCRAM channel binding check failed"));
        }
        if nonce != self.nonce {
            return Err(Refusal::Malformed("another nonce"));
        }
        let proof = STANDARD.decode(proof).ok().and_then(|proof| proof.try_into().ok());
        let proof: [u8; KEY_BYTES] = proof.ok_or(Refusal::Malformed("no proof"))?;
        let Exchange { first_bare, server_first, .. } = self;
        let conversation = format!("{first_bare},{server_first},{without}");
        let proved = verifier.proves(conversation.as_bytes(), &proof);
        let signature = || STANDARD.encode(verifier.signature(conversation.as_bytes()));
        Ok(proved.then(|| format!("v={}", signature())))
    }
}

/// What the client has to know of the channel, by what it says of that.
fn check_flag<'a>(
    mechanism: &str,
    flag: &str,
    end_point: Option<&'a [u8]>,
) -> Result<&'a [u8], Refusal> {
    match (flag, mechanism, end_point) {
        ("n", PLAIN, _) | ("y", PLAIN, None) => Ok(&[]),
        // Somebody in between may have told it so.
        ("y", PLAIN, Some(_)) => Err(Refusal::Binding(
            "the client supports SCRAM channel binding but thinks the server does not",
        )),
        ("p=tls-server-end-point", PLUS, Some(end_point)) => Ok(end_point),
        (flag, PLUS, Some(_)) if flag.starts_with("p=") => {
            Err(Refusal::Malformed("unsupported SCRAM channel-binding type"))
        }
        _ => Err(Refusal::Malformed("the mechanism and the binding flag disagree")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 7677, section 3, of the password `pencil`.
    const STORED: &str = "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$\
        WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=";
    const OURS: &str = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
    const FIRST: &[u8] = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO";
    const LAST: &str = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                        p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";

    fn begin(mechanism: &str, first: &[u8], end_point: Option<&[u8]>) -> Result<Exchange, Refusal> {
        Exchange::begin_with(mechanism, first, &verifier(), end_point, OURS)
    }

    fn verifier() -> Verifier {
        Verifier::parse(STORED).expect("it is one")
    }

    #[test]
    fn the_example_of_rfc_7677_is_answered() {
        let exchange = begin(PLAIN, FIRST, None).expect("well-formed");
        assert_eq!(
            exchange.server_first,
            "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
        );
        let answer = exchange.finish(LAST.as_bytes(), &verifier()).expect("well-formed");
        assert_eq!(answer.as_deref(), Some("v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="));
        let other = Verifier::of("Pencil");
        assert_eq!(exchange.finish(LAST.as_bytes(), &other), Ok(None));
    }

    #[test]
    fn what_is_not_scram_is_refused() {
        let firsts: [&[u8]; 9] = [
            b"",
            b"n",
            b"n,,",
            b"n,a=x,n=,r=x",
            b"n,,m=x,n=,r=x",
            b"n,,n=",
            b"n,,n=,r=",
            b"x,,n=,r=a",
            b"n,,n=,r=\xff",
        ];
        for first in firsts {
            let refused = begin(PLAIN, first, None);
            assert!(matches!(refused, Err(Refusal::Malformed(_))), "{first:?}");
        }
        let exchange = begin(PLAIN, FIRST, None).expect("well-formed");
        let nonce = LAST.replace("r=rOprN", "r=rOprM");
        for last in ["", "c=biws", "c=biws,r=x,p=", &nonce, &LAST.replace(",p=", ",q="), "p=x"] {
            let refused = exchange.finish(last.as_bytes(), &verifier());
            assert!(matches!(refused, Err(Refusal::Malformed(_))), "{last}");
        }
        let bound = exchange.finish(LAST.replace("biws", "eSws").as_bytes(), &verifier());
        assert!(matches!(bound, Err(Refusal::Binding(_))));
    }

    #[test]
    fn a_channel_that_is_not_the_clients_is_noticed() {
        let first = b"p=tls-server-end-point,,n=,r=abc";
        let exchange = begin(PLUS, first, Some(b"hash")).expect("well-formed");
        assert_eq!(exchange.binding, STANDARD.encode(b"p=tls-server-end-point,,hash"));
        let last =
            format!("c={},r=abc{OURS},p=AAAA", STANDARD.encode(b"p=tls-server-end-point,,hush"));
        let refused = exchange.finish(last.as_bytes(), &verifier());
        assert!(matches!(refused, Err(Refusal::Binding(_))), "{refused:?}");
        assert!(matches!(begin(PLAIN, b"y,,n=,r=abc", Some(b"hash")), Err(Refusal::Binding(_))));
        assert!(begin(PLAIN, b"y,,n=,r=abc", None).is_ok());
        assert!(begin(PLAIN, b"n,,n=,r=abc", Some(b"hash")).is_ok());
        assert!(begin(PLUS, first, None).is_err() && begin(PLAIN, first, Some(b"hash")).is_err());
        assert!(begin(PLUS, b"p=tls-unique,,n=,r=abc", Some(b"hash")).is_err());
    }
}
