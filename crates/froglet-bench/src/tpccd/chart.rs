//! What a sweep found in one picture: lines over a quantity; both axes are logarithmic, or one is.
//!
//! ```text
//!   title, subtitle
//!   │      ╭──○ B      points where something was measured,
//!   │ ○──○─╯  ○ A      each line's name at its end
//!   └─┴──┴────┴──▶     marks where there are points
//! ```

use super::svg::{self, BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, push};

/// For names, right of the last point.
const NAMES: f64 = 190.0;
/// Fewer marks than these say too little.
const FEW_TICKS: usize = 4;
/// The least distance between two names.
const LINE: f64 = 13.0;
/// Tell lines apart, also for those who see colours differently.
pub const COLOURS: [&str; 7] =
    ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#444444"];

/// One line: its name, and points, ascending; numbers on a logarithmic axis are above 0.
pub type Line = (String, Vec<(f64, f64)>);

/// A picture.
pub struct Chart {
    /// In large letters.
    pub title: String,
    /// Below it.
    pub subtitle: String,
    /// Of the axis at the bottom.
    pub x_label: String,
    /// Of the other.
    pub y_label: String,
    /// What is drawn.
    pub lines: Vec<Line>,
    /// Whether the axis at the bottom has marks where there are points, instead of round numbers.
    pub marks: bool,
    /// Whether the axis at the bottom is linear.
    pub is_linear: bool,
}

/// An axis, from numbers to places.
struct Axis {
    from: f64,
    to: f64,
    places: (f64, f64),
    /// What of a number goes evenly over the axis.
    scale: fn(f64) -> f64,
}

impl Axis {
    fn new(values: impl Iterator<Item = f64> + Clone, margin: f64, places: (f64, f64)) -> Axis {
        let from = values.clone().reduce(f64::min).unwrap_or(1.0) / margin;
        let to = values.reduce(f64::max).unwrap_or(1.0) * margin;
        Axis { from, to, places, scale: f64::ln }
    }

    fn linear(values: impl Iterator<Item = f64> + Clone, places: (f64, f64)) -> Axis {
        let from = values.clone().reduce(f64::min).unwrap_or(0.0);
        let to = values.reduce(f64::max).unwrap_or(1.0);
        // A single number is in the middle.
        let margin = if to > from { (to - from) / 30.0 } else { 1.0 };
        Axis { from: from - margin, to: to + margin, places, scale: |value| value }
    }

    fn place(&self, value: f64) -> f64 {
        let (from, to) = self.places;
        let [value, least, most] = [value, self.from, self.to].map(self.scale);
        from + (value - least) / (most - least) * (to - from)
    }

    /// Powers of ten in the range, with numbers between them where they are few.
    fn ticks(&self) -> Vec<f64> {
        let between: [&[f64]; 3] =
            [&[1.0], &[1.0, 2.0, 5.0], &[1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0]];
        let ticks = between.map(|steps| {
            let decades = self.from.log10().floor() as i32..=self.to.log10().ceil() as i32;
            let all = decades.flat_map(|d| steps.iter().map(move |step| step * 10f64.powi(d)));
            all.filter(|tick| (self.from..=self.to).contains(tick)).collect::<Vec<_>>()
        });
        let enough = |ticks: &Vec<f64>| ticks.len() >= FEW_TICKS;
        ticks.iter().find(|t| enough(t)).or(ticks.last()).cloned().unwrap_or_default()
    }
}

impl Chart {
    /// The SVG.
    pub fn svg(&self) -> String {
        let points = || self.lines.iter().flat_map(|(_, points)| points);
        let (values, places) = (points().map(|p| p.0), (LEFT, WIDTH - RIGHT - NAMES));
        let x = match self.is_linear {
            true => Axis::linear(values, places),
            false => Axis::new(values, 1.1, places),
        };
        let y = Axis::new(points().map(|p| p.1), 1.3, (HEIGHT - BOTTOM, TOP - 30.0));
        let mut out = svg::open(&self.title, &self.subtitle);
        for tick in y.ticks() {
            svg::grid(&mut out, y.place(tick), &svg::number(tick));
        }
        let mut marks: Vec<f64> =
            if self.marks { points().map(|p| p.0).collect() } else { x.ticks() };
        marks.sort_by(f64::total_cmp);
        marks.dedup();
        for at in marks {
            svg::mark(&mut out, x.place(at), &short(at));
        }
        svg::labels(&mut out, &self.x_label, &self.y_label);
        for ((_, points), colour) in self.lines.iter().zip(COLOURS.into_iter().cycle()) {
            line(&mut out, colour, points.iter().map(|(a, b)| (x.place(*a), y.place(*b))));
        }
        self.names(&mut out, &x, &y);
        out.push_str("</svg>\n");
        out
    }

    /// Each where its line ends, moved down if another is there.
    fn names(&self, out: &mut String, x: &Axis, y: &Axis) {
        let mut names: Vec<(f64, f64, &str, &str)> = Vec::new();
        for ((name, points), colour) in self.lines.iter().zip(COLOURS.into_iter().cycle()) {
            if let Some((a, b)) = points.last() {
                names.push((y.place(*b), x.place(*a), name, colour));
            }
        }
        names.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut lowest = f64::MIN;
        for (at, right, name, colour) in names {
            lowest = at.max(lowest + LINE);
            let style = format!("font-size=\"11\" style=\"fill:{colour}\"");
            svg::text(out, (right + 9.0, lowest + 4.0), &style, name);
        }
    }
}

fn line(out: &mut String, colour: &str, places: impl Iterator<Item = (f64, f64)>) {
    let mut path = String::new();
    for (x, y) in places {
        path += &format!("{x:.1},{y:.1} ");
        push(
            out,
            format_args!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.2\" fill=\"{colour}\"/>\n"),
        );
    }
    let path = path.trim_end();
    push(
        out,
        format_args!(
            "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.8\" points=\"{path}\"/>\n"
        ),
    );
}

/// `10 M` for ten million.
fn short(value: f64) -> String {
    match value {
        v if v >= 1e6 => format!("{} M", svg::number(v / 1e6)),
        v if v >= 1e4 => format!("{} k", svg::number(v / 1e3)),
        v => svg::number(v),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(lines: Vec<Line>) -> String {
        let words = || "1 < 2".to_owned();
        Chart {
            title: words(),
            subtitle: words(),
            x_label: words(),
            y_label: words(),
            lines,
            marks: true,
            is_linear: false,
        }
        .svg()
    }

    #[test]
    fn a_line_for_each_with_its_name_and_a_mark_for_each_size() {
        let lines = vec![
            ("grows".to_owned(), vec![(1e6, 100.0), (1e7, 1000.0)]),
            ("does not".to_owned(), vec![(1e6, 1.0), (1e7, 1.1)]),
        ];
        let svg = chart(lines);
        assert_eq!((svg.matches("<polyline").count(), svg.matches("<circle").count()), (2, 4));
        for words in ["grows", "does not", "10 M", "1 &lt; 2"] {
            assert!(svg.contains(words), "{words}");
        }
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
    }

    #[test]
    fn one_size_and_nothing_at_all_can_be_drawn() {
        assert!(!chart(vec![("one".to_owned(), vec![(1e6, 5.0)])]).contains("NaN"));
        assert!(!chart(vec![]).contains("NaN"));
    }

    #[test]
    fn an_axis_may_be_linear() {
        let axis = Axis::linear([0.0, 30.0].into_iter(), (0.0, 320.0));
        assert!((axis.place(0.0) - 10.0).abs() < 1e-9 && (axis.place(15.0) - 160.0).abs() < 1e-9);
    }

    #[test]
    fn an_axis_is_logarithmic() {
        let axis = Axis::new([1.0, 100.0].into_iter(), 1.0, (0.0, 200.0));
        assert!((axis.place(10.0) - 100.0).abs() < 1e-9);
        assert_eq!(axis.ticks(), [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0]);
        let axis = Axis::new([1.0, 10_000.0].into_iter(), 1.0, (0.0, 1.0));
        assert_eq!(axis.ticks(), [1.0, 10.0, 100.0, 1000.0, 10_000.0]);
        let axis = Axis::new([15.0, 25.0].into_iter(), 1.0, (0.0, 1.0));
        assert_eq!(axis.ticks(), [15.0, 20.0, 25.0]);
    }
}
