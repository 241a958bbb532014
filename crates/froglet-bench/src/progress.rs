//! Progress on the terminal for whoever waits: a bar while a table is filled, a line for a phase.
//! Both go to standard error, and nowhere if that is not a terminal.

use indicatif::{ProgressBar, ProgressStyle};

/// A bar of `total` things, drawn at most some ten times a second.
pub fn bar(what: &str, total: u64) -> ProgressBar {
    let style =
        ProgressStyle::with_template("{msg:24} {wide_bar} {human_pos}/{human_len} {eta:>4}");
    let bar = ProgressBar::new(total).with_message(what.to_owned());
    match style {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

/// Says what is being measured now.
pub fn phase(what: &str) {
    eprintln!("· {what}");
}
