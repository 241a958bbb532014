//! Packets that come before a connection has a type byte.

use super::{WireError, utf8};

/// The first packet of a connection, or one after an encryption request was declined.
#[derive(Debug, PartialEq, Eq)]
pub enum Startup {
    /// Asks for TLS.
    Ssl,
    /// Asks for GSSAPI encryption.
    Gss,
    /// Stop what another connection does.
    Cancel {
        /// That connection's number.
        process: i32,
        /// Its secret.
        secret: i32,
    },
    /// Begin a session.
    Session(SessionStart),
}

/// What a client says about the session it wants.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct SessionStart {
    /// The minor version of protocol 3 asked for.
    pub minor: u16,
    /// Options of newer protocols (`_pq_.name`), none of which is known here.
    pub protocol_options: Vec<String>,
    /// `user`
    pub user: Option<String>,
    /// `database`
    pub database: Option<String>,
    /// Every other parameter, then those in `options`, in this order: later ones win.
    pub settings: Vec<(String, String)>,
}

const CANCEL: (u16, u16) = (1234, 5678);
const SSL: (u16, u16) = (1234, 5679);
const GSS: (u16, u16) = (1234, 5680);

/// Decodes a packet's body: everything after its length.
pub fn decode(body: &[u8]) -> Result<Startup, WireError> {
    let (version, rest) = body.split_at_checked(4).ok_or(WireError::StartupLayout)?;
    let major = u16::from_be_bytes([version[0], version[1]]);
    let minor = u16::from_be_bytes([version[2], version[3]]);
    match (major, minor) {
        SSL if rest.is_empty() => Ok(Startup::Ssl),
        GSS if rest.is_empty() => Ok(Startup::Gss),
        CANCEL => match *rest {
            [p0, p1, p2, p3, s0, s1, s2, s3] => Ok(Startup::Cancel {
                process: i32::from_be_bytes([p0, p1, p2, p3]),
                secret: i32::from_be_bytes([s0, s1, s2, s3]),
            }),
            _ => Err(WireError::StartupLayout),
        },
        (3, minor) => Ok(Startup::Session(session(minor, rest)?)),
        (major, minor) => Err(WireError::Version { major, minor }),
    }
}

fn session(minor: u16, mut rest: &[u8]) -> Result<SessionStart, WireError> {
    let mut start = SessionStart { minor, ..SessionStart::default() };
    let mut options = None;
    loop {
        let name = string(&mut rest)?;
        if name.is_empty() {
            break;
        }
        let value = string(&mut rest)?;
        match name {
            "user" => start.user = Some(value.to_owned()),
            "database" => start.database = Some(value.to_owned()),
            "options" => options = Some(value),
            // Anything but false would make this a replication connection.
            "replication" if matches!(value, "false" | "off" | "no" | "0") => {}
            name if name.starts_with("_pq_.") => start.protocol_options.push(name.to_owned()),
            name => start.settings.push((name.to_owned(), value.to_owned())),
        }
    }
    if !rest.is_empty() {
        return Err(WireError::StartupLayout);
    }
    if let Some(options) = options {
        command_line(options, &mut start.settings);
    }
    Ok(start)
}

fn string<'a>(rest: &mut &'a [u8]) -> Result<&'a str, WireError> {
    let end = rest.iter().position(|&b| b == 0).ok_or(WireError::StartupLayout)?;
    let text = utf8(&rest[..end])?;
    *rest = &rest[end + 1..];
    Ok(text)
}

/// Settings in the form of server command-line switches, as `PGOPTIONS` has them: `-c name=value`,
/// `-cname=value`, `--name=value`, words separated by spaces, a backslash before a literal one.
/// A word that is none of these is kept as a setting of that name, to be refused by name.
fn command_line(options: &str, settings: &mut Vec<(String, String)>) {
    let mut words = words(options).into_iter();
    while let Some(word) = words.next() {
        let assignment = match (word.strip_prefix("--"), word.strip_prefix("-c")) {
            (Some(rest), _) => rest.to_owned(),
            (None, Some("")) => words.next().unwrap_or_default(),
            (None, Some(rest)) => rest.to_owned(),
            (None, None) => word.clone(),
        };
        let (name, value) = assignment.split_once('=').unwrap_or((&assignment, ""));
        // In switches PostgreSQL lets a dash stand for an underscore.
        settings.push((name.replace('-', "_"), value.to_owned()));
    }
}

fn words(options: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut begun = false;
    let mut chars = options.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => {
                word.extend(chars.next());
                begun = true;
            }
            c if c.is_ascii_whitespace() => {
                if std::mem::take(&mut begun) {
                    words.push(std::mem::take(&mut word));
                }
            }
            c => {
                word.push(c);
                begun = true;
            }
        }
    }
    if begun {
        words.push(word);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(minor: u8, pairs: &[(&str, &str)]) -> Vec<u8> {
        let mut body = vec![0, 3, 0, minor];
        for (name, value) in pairs {
            for text in [name, value] {
                body.extend_from_slice(text.as_bytes());
                body.push(0);
            }
        }
        body.push(0);
        body
    }

    #[test]
    fn a_session_start_is_sorted_into_its_parts() {
        let body = start(
            2,
            &[
                ("user", "anna"),
                ("database", "shop"),
                ("options", r"-c a=1 --lock-timeout=5s -cx=two\ words  "),
                ("application_name", "psql"),
                ("_pq_.new", "1"),
            ],
        );
        let Ok(Startup::Session(got)) = decode(&body) else {
            panic!("not a session start");
        };
        assert_eq!(got.minor, 2);
        assert_eq!(got.user.as_deref(), Some("anna"));
        assert_eq!(got.database.as_deref(), Some("shop"));
        assert_eq!(got.protocol_options, ["_pq_.new"]);
        let want =
            [("application_name", "psql"), ("a", "1"), ("lock_timeout", "5s"), ("x", "two words")];
        let want: Vec<_> = want.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
        assert_eq!(got.settings, want);
    }

    #[test]
    fn everything_else_is_told_apart() {
        assert_eq!(decode(&[4, 210, 22, 47]), Ok(Startup::Ssl));
        assert_eq!(decode(&[4, 210, 22, 48]), Ok(Startup::Gss));
        let cancel = [4, 210, 22, 46, 0, 0, 0, 7, 0, 0, 0, 9];
        let want = Startup::Cancel { process: 7, secret: 9 };
        assert_eq!(decode(&cancel), Ok(want));
        assert_eq!(decode(&cancel[..9]), Err(WireError::StartupLayout));
        assert!(matches!(decode(&[0, 2, 0, 0]), Err(WireError::Version { major: 2, .. })));
        assert_eq!(decode(&[0, 3]), Err(WireError::StartupLayout));
        assert_eq!(decode(&[0, 3, 0, 0]), Err(WireError::StartupLayout));
        assert_eq!(decode(b"\0\x03\0\0user\0"), Err(WireError::StartupLayout));
        assert_eq!(decode(b"\0\x03\0\0\0x"), Err(WireError::StartupLayout));
        assert!(matches!(decode(b"\0\x03\0\0\xff\0a\0\0"), Err(WireError::Utf8 { .. })));
    }
}
