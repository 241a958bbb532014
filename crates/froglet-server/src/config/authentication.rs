//! The rules of authentication, and that nobody far away gets in without one.

use super::{Config, ConfigError, Entry, TlsFiles};
use crate::auth::rules::Rule;

/// What the rules are called.
pub const KEY: &str = "authentication";

/// One rule of the file, or all those of a variable, with semicolons or line ends between them.
pub fn apply(config: &mut Config, e: &Entry) -> Result<(), ConfigError> {
    let texts = e.value.split([';', '\n']).map(str::trim).filter(|text| !text.is_empty());
    let before = config.authentication.len();
    for text in texts {
        let rule = Rule::parse(text, &e.place)
            .map_err(|why| Entry { value: text.to_owned(), ..e.clone() }.error(why))?;
        config.authentication.push(rule);
    }
    match config.authentication.len() > before {
        true => Ok(()),
        false => Err(e.error("a rule is needed, \"host all all all scram-sha-256\" for example")),
    }
}

/// Whoever can reach a port from elsewhere has to prove who he is.
pub fn check(config: &Config, entries: &[&Entry]) -> Result<(), ConfigError> {
    let of = |name: &str| entries.iter().rfind(|e| e.name == name);
    let flight = config.flight_listen.map(|address| ("flight_listen", address));
    for (name, address) in [("listen", config.listen)].into_iter().chain(flight) {
        let Some(entry) = of(name).filter(|_| !address.ip().is_loopback()) else { continue };
        if config.authentication.is_empty() {
            return Err(entry.error(
                "beyond loopback (127.0.0.1, ::1, localhost) there must be rules of authentication, and there \
                 are none: authentication = [\"hostssl all all all scram-sha-256\"], for example",
            ));
        }
        if let Some(rule) = config.rules().far_trust() {
            return Err(entry.error(format!(
                "the rule of authentication at {} trusts whoever connects, and not from loopback only",
                rule.place
            )));
        }
        if name == "flight_listen" && config.tls.as_ref().or(config.flight_tls.as_ref()).is_none() {
            return Err(entry.error(
                "beyond loopback Flight's clients would send their passwords for all to read: it needs TLS \
                 (tls_cert and tls_key)",
            ));
        }
    }
    let given = [
        (["tls_cert", "tls_key"], &config.tls),
        (["flight_tls_cert", "flight_tls_key"], &config.flight_tls),
    ];
    for (names, files) in given {
        let Some(TlsFiles { certificate, key }) = files else { continue };
        let [has_certificate, has_key] =
            [certificate, key].map(|path| !path.as_os_str().is_empty());
        if has_certificate != has_key {
            let (given, missing) = if has_certificate { (0, 1) } else { (1, 0) };
            let entry = of(names[given]).expect("it was given");
            return Err(entry.error(format!("{} is needed as well", names[missing])));
        }
    }
    Ok(())
}
