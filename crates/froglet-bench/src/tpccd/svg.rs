//! What pictures have in common: their size, their words, round numbers.

use std::fmt::{Arguments, Write};

pub const WIDTH: f64 = 860.0;
pub const HEIGHT: f64 = 430.0;
pub const LEFT: f64 = 76.0;
pub const RIGHT: f64 = 24.0;
pub const TOP: f64 = 92.0;
pub const BOTTOM: f64 = 56.0;
pub const TEXT: &str = "#333";
pub const GRID: &str = "#e4e4e4";

/// The start of a picture, up to its subtitle.
pub fn open(title: &str, subtitle: &str) -> String {
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         width=\"{WIDTH}\" height=\"{HEIGHT}\" \
         font-family=\"Helvetica, Arial, 'DejaVu Sans', sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    text(&mut out, (LEFT, 28.0), "font-size=\"17\" font-weight=\"bold\"", title);
    text(&mut out, (LEFT, 47.0), "font-size=\"11\"", subtitle);
    out
}

/// The line at the bottom and what both axes are called.
pub fn labels(out: &mut String, x_label: &str, y_label: &str) {
    let (bottom, right) = (HEIGHT - BOTTOM, WIDTH - RIGHT);
    push(out, format_args!("<path d=\"M{LEFT} {bottom}H{right}\" stroke=\"{TEXT}\"/>\n"));
    let middle = (LEFT + right) / 2.0;
    text(out, (middle, HEIGHT - 14.0), "text-anchor=\"middle\"", x_label);
    let (x, y) = (18.0, (TOP + bottom) / 2.0);
    let turned = format!("text-anchor=\"middle\" transform=\"rotate(-90 {x} {y})\"");
    text(out, (x, y), &turned, y_label);
}

/// A line of the grid, with what it stands for.
pub fn grid(out: &mut String, y: f64, label: &str) {
    let right = WIDTH - RIGHT;
    push(out, format_args!("<path d=\"M{LEFT} {y:.1}H{right}\" stroke=\"{GRID}\"/>\n"));
    text(out, (LEFT - 8.0, y + 4.0), "text-anchor=\"end\"", label);
}

/// A mark on the axis at the bottom, with what it stands for.
pub fn mark(out: &mut String, x: f64, label: &str) {
    let bottom = HEIGHT - BOTTOM;
    push(out, format_args!("<path d=\"M{x:.1} {bottom}v5\" stroke=\"{TEXT}\"/>\n"));
    text(out, (x, bottom + 19.0), "text-anchor=\"middle\"", label);
}

/// Round numbers in `from..=to`, about as many as `wanted`.
pub fn ticks(from: f64, to: f64, wanted: u32) -> Vec<f64> {
    let rough = (to - from) / f64::from(wanted);
    let magnitude = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|m| m * magnitude);
    let step = step.into_iter().find(|step| *step >= rough).unwrap_or(rough);
    let (first, last) = ((from / step).ceil() as i64, (to / step).floor() as i64);
    (first..=last).map(|n| n as f64 * step).collect()
}

/// A round number.
pub fn number(value: f64) -> String {
    // Ticks are multiples of a round step: three decimals are all they have.
    let text = format!("{value:.3}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.replace('-', "−") }
}

/// Words at a place.
pub fn text(out: &mut String, (x, y): (f64, f64), style: &str, words: &str) {
    let words = words.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    push(
        out,
        format_args!("<text x=\"{x:.1}\" y=\"{y:.1}\" fill=\"{TEXT}\" {style}>{words}</text>\n"),
    );
}

/// Appends to a picture.
pub fn push(out: &mut String, what: Arguments<'_>) {
    out.write_fmt(what).expect("a String takes whatever is written");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round() {
        assert_eq!(ticks(0.0, 1060.0, 6), [0.0, 200.0, 400.0, 600.0, 800.0, 1000.0]);
        assert_eq!(ticks(-5.0, 7.3, 6), [-5.0, 0.0, 5.0]);
        assert_eq!([0.0, -2.0, 0.05, 1500.0].map(number), ["0", "−2", "0.05", "1500"]);
    }
}
