//! Throughput over time of several approaches in one picture, as an SVG of its own.
//!
//! ```text
//!   title, subtitle, legend
//!   │    ╭──╮ ┌ shaded: a change ┐
//!   │ ───╯  ╰─│─╮            ╭───│───     one line for each approach
//!   └─────────0──────────────────────▶    seconds since the change began
//! ```

use super::svg::{self, BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, push, text};

/// The width of a letter of the legend, and of the line and the space around an entry.
const LETTER: f64 = 6.6;
const ENTRY: f64 = 46.0;

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
        let mut out = svg::open(&self.title, &self.subtitle);
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
            let above = TOP - 4.0 - 5.0 * row as f64;
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
        let mut left = LEFT;
        for series in &self.series {
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
            left += ENTRY + LETTER * label.chars().count() as f64;
        }
    }
}

fn axes(out: &mut String, scales: &Scales) {
    for y in svg::ticks(0.0, scales.y_max, 6) {
        svg::grid(out, scales.y(y), &svg::number(y));
    }
    for x in svg::ticks(scales.x.0, scales.x.1, 12) {
        svg::mark(out, scales.x(x), &svg::number(x));
    }
    svg::labels(out, "time since the change began (s)", "throughput (transactions/s)");
}

#[cfg(test)]
mod tests {
    use super::*;

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
