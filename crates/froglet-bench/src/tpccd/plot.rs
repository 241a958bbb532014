//! Throughput over time of several approaches in one picture, as an SVG of its own.
//!
//! ```text
//!   title, subtitle, legend
//!   │    ╭──╮ ┌ shaded: a change ┐
//!   │ ───╯  ╰─│─╮            ╭───│───     one line for each approach
//!   └─────────0──────────────────────▶    seconds since the change began
//! ```

use std::fmt::Write;

const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 430.0;
const LEFT: f64 = 76.0;
const RIGHT: f64 = 24.0;
const TOP: f64 = 92.0;
const BOTTOM: f64 = 56.0;
/// The width of an entry of the legend.
const LEGEND: f64 = 200.0;
const TEXT: &str = "#333";
const GRID: &str = "#e4e4e4";

/// One approach's line.
pub struct Series {
    /// For the legend.
    pub name: String,
    /// As SVG has it.
    pub colour: &'static str,
    /// Seconds since the change began, and the throughput in transactions a second.
    pub points: Vec<(f64, f64)>,
    /// When the change ended, in seconds since it began; nothing is shaded without one.
    pub change_seconds: Option<f64>,
}

/// A picture.
pub struct Plot {
    /// In large letters.
    pub title: String,
    /// Below it.
    pub subtitle: String,
    /// Drawn in this order, so that the last is on top.
    pub series: Vec<Series>,
}

/// From numbers to places.
struct Scales {
    x: (f64, f64),
    y_max: f64,
}

impl Scales {
    fn x(&self, seconds: f64) -> f64 {
        let (from, to) = self.x;
        LEFT + (seconds - from) / (to - from) * (WIDTH - LEFT - RIGHT)
    }

    fn y(&self, per_second: f64) -> f64 {
        HEIGHT - BOTTOM - per_second / self.y_max * (HEIGHT - TOP - BOTTOM)
    }
}

impl Plot {
    /// The SVG.
    pub fn svg(&self) -> String {
        let scales = self.scales();
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
             width=\"{WIDTH}\" height=\"{HEIGHT}\" \
             font-family=\"Helvetica, Arial, 'DejaVu Sans', sans-serif\" font-size=\"12\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
        );
        text(&mut out, (LEFT, 28.0), "font-size=\"17\" font-weight=\"bold\"", &self.title);
        text(&mut out, (LEFT, 47.0), "font-size=\"11\"", &self.subtitle);
        self.shades(&mut out, &scales);
        axes(&mut out, &scales);
        for series in &self.series {
            let points: Vec<String> = series
                .points
                .iter()
                .map(|(x, y)| format!("{:.1},{:.1}", scales.x(*x), scales.y(*y)))
                .collect();
            push(
                &mut out,
                format_args!(
                    "<polyline fill=\"none\" stroke=\"{}\" stroke-width=\"1.8\" \
                 stroke-linejoin=\"round\" points=\"{}\"/>\n",
                    series.colour,
                    points.join(" ")
                ),
            );
        }
        self.legend(&mut out);
        out.push_str("</svg>\n");
        out
    }

    fn scales(&self) -> Scales {
        let points = || self.series.iter().flat_map(|series| &series.points);
        let fold = |values: &mut dyn Iterator<Item = f64>, pick: fn(f64, f64) -> f64| {
            values.reduce(pick).unwrap_or(0.0)
        };
        let from = fold(&mut points().map(|p| p.0), f64::min);
        let to = fold(&mut points().map(|p| p.0), f64::max);
        let highest = fold(&mut points().map(|p| p.1), f64::max);
        // Neither axis may have no length, whatever was measured.
        Scales { x: (from, to.max(from + 0.1)), y_max: (highest * 1.06).max(1.0) }
    }

    /// The changes: a strip each, with its length above it.
    fn shades(&self, out: &mut String, scales: &Scales) {
        let changes = self.series.iter().filter_map(|s| Some((s, s.change_seconds?)));
        for (row, (series, seconds)) in changes.enumerate() {
            let (left, right) = (scales.x(0.0), scales.x(seconds));
            let (width, bottom) = ((right - left).max(1.0), HEIGHT - BOTTOM);
            let above = TOP - 6.0 - 9.0 * row as f64;
            push(
                out,
                format_args!(
                    "<rect x=\"{left:.1}\" y=\"{TOP}\" width=\"{width:.1}\" height=\"{:.1}\" \
                 fill=\"{colour}\" fill-opacity=\"0.13\"/>\n\
                 <path d=\"M{left:.1} {above}h{width:.1}\" stroke=\"{colour}\" \
                 stroke-width=\"3\"/>\n",
                    bottom - TOP,
                    colour = series.colour,
                ),
            );
        }
    }

    fn legend(&self, out: &mut String) {
        for (series, slot) in self.series.iter().zip(0u32..) {
            let left = LEFT + LEGEND * f64::from(slot);
            let label = match series.change_seconds {
                Some(s) if s >= 1.0 => format!("{}, change {s:.1} s", series.name),
                Some(s) => format!("{}, change {:.0} ms", series.name, s * 1000.0),
                None => series.name.clone(),
            };
            text(out, (left + 26.0, 69.0), "", &label);
            push(
                out,
                format_args!(
                    "<path d=\"M{left:.1} 65h20\" stroke=\"{}\" stroke-width=\"3\"/>\n",
                    series.colour
                ),
            );
        }
    }
}

fn axes(out: &mut String, scales: &Scales) {
    let (bottom, right) = (HEIGHT - BOTTOM, WIDTH - RIGHT);
    for y in ticks(0.0, scales.y_max, 6) {
        let at = scales.y(y);
        push(out, format_args!("<path d=\"M{LEFT} {at:.1}H{right}\" stroke=\"{GRID}\"/>\n"));
        text(out, (LEFT - 8.0, at + 4.0), "text-anchor=\"end\"", &number(y));
    }
    for x in ticks(scales.x.0, scales.x.1, 12) {
        let at = scales.x(x);
        push(out, format_args!("<path d=\"M{at:.1} {bottom}v5\" stroke=\"{TEXT}\"/>\n"));
        text(out, (at, bottom + 19.0), "text-anchor=\"middle\"", &number(x));
    }
    push(out, format_args!("<path d=\"M{LEFT} {bottom}H{right}\" stroke=\"{TEXT}\"/>\n"));
    let middle = (LEFT + right) / 2.0;
    let label = "time since the change began (s)";
    text(out, (middle, HEIGHT - 14.0), "text-anchor=\"middle\"", label);
    let (x, y) = (18.0, (TOP + bottom) / 2.0);
    let turned = format!("text-anchor=\"middle\" transform=\"rotate(-90 {x} {y})\"");
    text(out, (x, y), &turned, "throughput (transactions/s)");
}

/// Round numbers in `from..=to`, about as many as `wanted`.
fn ticks(from: f64, to: f64, wanted: u32) -> Vec<f64> {
    let rough = (to - from) / f64::from(wanted);
    let magnitude = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|m| m * magnitude);
    let step = step.into_iter().find(|step| *step >= rough).unwrap_or(rough);
    let (first, last) = ((from / step).ceil() as i64, (to / step).floor() as i64);
    (first..=last).map(|n| n as f64 * step).collect()
}

fn number(value: f64) -> String {
    // Ticks are multiples of a round step: three decimals are all they have.
    let text = format!("{value:.3}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.replace('-', "−") }
}

fn text(out: &mut String, (x, y): (f64, f64), style: &str, words: &str) {
    let words = words.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    push(
        out,
        format_args!("<text x=\"{x:.1}\" y=\"{y:.1}\" fill=\"{TEXT}\" {style}>{words}</text>\n"),
    );
}

fn push(out: &mut String, what: std::fmt::Arguments<'_>) {
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

    #[test]
    fn a_picture_has_a_line_for_each_approach_and_nothing_that_xml_forbids() {
        let series = |name: &str, change_seconds| Series {
            name: name.to_owned(),
            colour: "#0072b2",
            points: vec![(-1.0, 900.0), (0.0, 0.0), (1.0, 1000.0)],
            change_seconds,
        };
        let plot = Plot {
            title: "1 < 2 & 3".to_owned(),
            subtitle: String::new(),
            series: vec![series("NoDDL", None), series("Tesseract", Some(0.25))],
        };
        let svg = plot.svg();
        assert_eq!(svg.matches("<polyline").count(), 2);
        assert_eq!(svg.matches("fill-opacity").count(), 1, "one change is shaded");
        assert!(svg.contains("1 &lt; 2 &amp; 3") && svg.contains("change 250 ms"));
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
    }

    #[test]
    fn nothing_measured_is_no_division_by_zero() {
        let plot = Plot { title: String::new(), subtitle: String::new(), series: vec![] };
        assert!(!plot.svg().contains("NaN"));
    }
}
