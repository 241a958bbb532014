//! Rules of authentication, as pg_hba.conf has them.
//!
//! ```text
//!   authentication = [
//!     "host     all      all        127.0.0.1/32  trust",
//!     "hostssl  postgres anna,+app  10.0.0.0/8    scram-sha-256",
//!   ]
//!    type      database user       address       method
//! ```
//! The first rule that fits a connection decides; without one it is refused. Words in double quotes are names,
//! whatever they say.

use std::net::IpAddr;

/// Connections of one kind, and what becomes of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    tls: Option<bool>,
    databases: Vec<Word>,
    users: Vec<Word>,
    network: Option<Network>,
    /// What becomes of them.
    pub method: Method,
    /// Where it was read.
    pub place: String,
}

/// How a client proves who it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Not at all.
    Trust,
    /// By a password, which is not sent.
    Scram,
    /// It may not connect.
    Reject,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Word {
    All,
    SameUser,
    Name(String),
    /// `+name`: the role and its members.
    Members(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Network {
    address: IpAddr,
    prefix_bits: u8,
}

/// A client that wants to connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its address.
    pub address: IpAddr,
    /// Whether it speaks TLS.
    pub is_tls: bool,
}

/// All rules, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules(Vec<Rule>);

impl Default for Rules {
    /// Whoever can connect to a loopback address is at home.
    fn default() -> Rules {
        let rule = |network| Rule::parse(&format!("host all all {network} trust"), "the default");
        Rules(["127.0.0.0/8", "::1/128"].map(|n| rule(n).expect("it is a rule")).into())
    }
}

impl Rules {
    /// These, in order.
    pub fn new(rules: Vec<Rule>) -> Rules {
        Rules(rules)
    }

    /// The rule that decides about a connection. `is_member` says whether one role is a member of another.
    pub fn find(
        &self,
        peer: Peer,
        database: &str,
        user: &str,
        is_member: impl Fn(&str, &str) -> bool,
    ) -> Option<&Rule> {
        self.0.iter().find(|rule| rule.fits(peer, database, user, &is_member))
    }

    /// The first rule that trusts somebody who is not on this machine [A2 of the module above].
    pub fn far_trust(&self) -> Option<&Rule> {
        let is_far = |rule: &&Rule| {
            let near = rule.network.is_some_and(|network| network.is_loopback());
            rule.method == Method::Trust && !near
        };
        self.0.iter().find(is_far)
    }
}

impl Rule {
    /// Reads a rule; the error is why it is none.
    pub fn parse(text: &str, place: &str) -> Result<Rule, String> {
        let words = words(text)?;
        let [kind, databases, users, rest @ ..] = words.as_slice() else {
            return Err(format!("{SHAPE}; {} words are too few", words.len()));
        };
        let tls = match kind.as_str() {
            "host" => None,
            "hostssl" => Some(true),
            "hostnossl" => Some(false),
            "local" => return Err("there are no Unix sockets: a rule begins with host".to_owned()),
            other => {
                return Err(format!(
                    "a rule begins with host, hostssl or hostnossl, not with {other:?}"
                ));
            }
        };
        let (network, method) = match rest {
            [address, method] => (Network::parse(address)?, method),
            // An address and its mask apart, as pg_hba.conf may have them.
            [address, mask, method] => (Some(Network::masked(address, mask)?), method),
            _ => return Err(SHAPE.to_owned()),
        };
        let method = match method.as_str() {
            "trust" => Method::Trust,
            "scram-sha-256" => Method::Scram,
            "reject" => Method::Reject,
            other => {
                return Err(format!(
                    "there is no method {other:?}: trust, scram-sha-256 and reject are possible"
                ));
            }
        };
        let databases = list(databases, true)?;
        let users = list(users, false)?;
        Ok(Rule { tls, databases, users, network, method, place: place.to_owned() })
    }

    fn fits(
        &self,
        peer: Peer,
        database: &str,
        user: &str,
        is_member: &impl Fn(&str, &str) -> bool,
    ) -> bool {
        let is = |word: &Word, name: &str| match word {
            Word::All => true,
            Word::SameUser => name == user,
            Word::Name(known) => known == name,
            Word::Members(role) => is_member(user, role),
        };
        self.tls.is_none_or(|tls| tls == peer.is_tls)
            && self.network.is_none_or(|network| network.contains(peer.address))
            && self.databases.iter().any(|word| is(word, database))
            && self.users.iter().any(|word| is(word, user))
    }
}

const SHAPE: &str = "a rule is TYPE DATABASE USER ADDRESS METHOD, \
                     \"hostssl all all 0.0.0.0/0 scram-sha-256\" for example";

/// Words as they stand; those in quotes keep their quotes, so that they are known to be names.
fn words(text: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut is_quoted = false;
    for c in text.chars() {
        match c {
            '"' => {
                is_quoted = !is_quoted;
                word.push(c);
            }
            '#' if !is_quoted => break,
            c if c.is_whitespace() && !is_quoted => {
                // A list may have spaces after its commas.
                if !word.is_empty() && !word.ends_with(',') {
                    words.push(std::mem::take(&mut word));
                }
            }
            c => word.push(c),
        }
    }
    if is_quoted {
        return Err("a quote is not closed".to_owned());
    }
    words.extend(Some(word).filter(|word| !word.is_empty()));
    Ok(words)
}

fn list(text: &str, of_databases: bool) -> Result<Vec<Word>, String> {
    let mut found = Vec::new();
    for word in text.split(',') {
        let unquoted = word.strip_prefix('"').and_then(|word| word.strip_suffix('"'));
        found.push(match (unquoted, word) {
            (Some(name), _) => Word::Name(name.to_owned()),
            (None, "") => return Err(format!("{text:?} has an empty name")),
            (None, "all") => Word::All,
            (None, "sameuser") if of_databases => Word::SameUser,
            (None, "samerole" | "replication") if of_databases => {
                return Err(format!("{word} is not supported in a rule"));
            }
            (None, name) if name.starts_with(['@', '/']) => {
                return Err(format!("{name:?}: files and patterns are not supported in a rule"));
            }
            (None, name) => match name.strip_prefix('+') {
                Some(role) if !of_databases => Word::Members(role.to_owned()),
                _ => Word::Name(name.to_owned()),
            },
        });
    }
    Ok(found)
}

impl Network {
    /// `None` for every address.
    fn parse(text: &str) -> Result<Option<Network>, String> {
        if text == "all" {
            return Ok(None);
        }
        let wrong = || {
            format!("{text:?} is no network: 10.0.0.0/8, ::1/128 or all is needed (no host name)")
        };
        let (address, bits) = text.split_once('/').ok_or_else(wrong)?;
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let prefix_bits = bits.parse().ok().filter(|bits| *bits <= width(address));
        Ok(Some(Network { address, prefix_bits: prefix_bits.ok_or_else(wrong)? }))
    }

    fn masked(address: &str, mask: &str) -> Result<Network, String> {
        let wrong = |text: &str| format!("{text:?} is no address or mask");
        let address: IpAddr = address.parse().map_err(|_| wrong(address))?;
        let parsed: IpAddr = mask.parse().map_err(|_| wrong(mask))?;
        let (bits, ones) = match parsed {
            IpAddr::V4(mask) => (mask.to_bits().leading_ones(), mask.to_bits().count_ones()),
            IpAddr::V6(mask) => (mask.to_bits().leading_ones(), mask.to_bits().count_ones()),
        };
        if bits != ones || address.is_ipv4() != parsed.is_ipv4() {
            return Err(wrong(mask));
        }
        Ok(Network { address, prefix_bits: bits as u8 })
    }

    fn contains(&self, address: IpAddr) -> bool {
        let bits = u32::from(self.prefix_bits);
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(network), IpAddr::V4(address)) => {
                let mask = u32::MAX.checked_shl(32 - bits).unwrap_or(0);
                (network.to_bits() ^ address.to_bits()) & mask == 0
            }
            (IpAddr::V6(network), IpAddr::V6(address)) => {
                let mask = u128::MAX.checked_shl(128 - bits).unwrap_or(0);
                (network.to_bits() ^ address.to_bits()) & mask == 0
            }
            _ => false,
        }
    }

    fn is_loopback(&self) -> bool {
        match self.address {
            IpAddr::V4(address) => address.is_loopback() && self.prefix_bits >= 8,
            IpAddr::V6(address) => address.is_loopback() && self.prefix_bits == 128,
        }
    }
}

fn width(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(texts: &[&str]) -> Rules {
        Rules::new(texts.iter().map(|text| Rule::parse(text, "here").expect(text)).collect())
    }

    fn found(
        rules: &Rules,
        address: &str,
        is_tls: bool,
        database: &str,
        user: &str,
    ) -> Option<Method> {
        let peer = Peer { address: address.parse().expect("an address"), is_tls };
        let is_member = |user: &str, role: &str| user == role || (user, role) == ("otto", "app");
        rules.find(peer, database, user, is_member).map(|rule| rule.method)
    }

    #[test]
    fn the_first_rule_that_fits_decides() {
        let rules = rules(&[
            "host all \"all\" 0.0.0.0/0 reject",
            "hostssl all +app 10.1.0.0/16 scram-sha-256 # the application",
            "hostnossl sameuser,shop anna, berta 10.0.0.0 255.0.0.0 trust",
            "host all all ::1/128 trust",
        ]);
        let of = |address, is_tls, database, user| found(&rules, address, is_tls, database, user);
        assert_eq!(of("10.1.2.3", true, "x", "otto"), Some(Method::Scram));
        assert_eq!(of("10.1.2.3", false, "x", "otto"), None);
        assert_eq!(of("10.2.2.3", true, "x", "otto"), None);
        assert_eq!(of("10.2.2.3", false, "anna", "anna"), Some(Method::Trust));
        assert_eq!(of("10.2.2.3", false, "shop", "berta"), Some(Method::Trust));
        assert_eq!(of("10.2.2.3", false, "else", "berta"), None);
        assert_eq!(of("::ffff:10.2.2.3", false, "shop", "anna"), Some(Method::Trust));
        assert_eq!(of("9.9.9.9", true, "x", "all"), Some(Method::Reject));
        assert_eq!(of("::1", false, "x", "anna"), Some(Method::Trust));
        assert_eq!(of("::2", false, "x", "anna"), None);
    }

    #[test]
    fn who_is_at_home_is_trusted_and_nobody_else() {
        let near = Rules::default();
        assert_eq!(near.far_trust(), None);
        assert_eq!(found(&near, "127.0.0.1", false, "postgres", "x"), Some(Method::Trust));
        assert_eq!(found(&near, "192.0.2.1", false, "postgres", "x"), None);
        for far in ["all", "0.0.0.0/0", "127.0.0.0/7", "::/0", "::1/127", "10.0.0.1/32"] {
            assert!(rules(&[&format!("host all all {far} trust")]).far_trust().is_some(), "{far}");
        }
        assert_eq!(rules(&["host all all all scram-sha-256"]).far_trust(), None);
    }

    #[test]
    fn what_is_no_rule_says_why() {
        let cases = [
            ("host all all trust", "a rule is TYPE"),
            ("host all", "too few"),
            ("local all all trust", "Unix sockets"),
            ("hosts all all all trust", "hostssl"),
            ("host all all 10.0.0.0/33 trust", "no network"),
            ("host all all 10.0.0.0 trust", "no network"),
            ("host all all localhost trust", "no host name"),
            ("host all all 10.0.0.0 255.0.255.0 trust", "mask"),
            ("host all all all md5", "\"md5\""),
            ("host all a,,b all trust", "empty name"),
            ("host replication all all trust", "replication"),
            ("host all \"a all trust", "quote"),
            ("host all @users all trust", "files"),
        ];
        for (text, want) in cases {
            let why = Rule::parse(text, "here").expect_err(text);
            assert!(why.contains(want), "{text}: {why}");
        }
    }
}
