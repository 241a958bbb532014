//! The demonstration on a terminal.
//!
//! ```text
//!   Froglet, TPC-C …                                        title
//!   ┌ throughput ──────┐   a column for each 200 ms, yellow while a change is made
//!   ┌ latency, p99 ────┐
//!   ┌ schema changes ──┐   time, during / before, longest gap, failed
//!   capture ███████░░░ 70 %: … rows scanned                 the change that runs
//!   q quits
//! ```

use std::time::Duration;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::{Line, Span as Words};
use ratatui::widgets::{Block, LineGauge, Paragraph, Row, Sparkline, SparklineBar, Table};

use super::story::{Chapter, Figures, SHORTEST, State, Story};
use crate::report::number;
use crate::tpccd::recording::Span;

/// The width of a column.
const WINDOW: Duration = Duration::from_millis(200);
/// Room for the scale's numbers.
const SCALE_COLUMNS: u16 = 8;
const CALM: Color = Color::Cyan;
const CHANGING: Color = Color::Yellow;

/// Draws everything.
pub fn draw(frame: &mut Frame<'_>, story: &Story) {
    let table_rows = story.chapters.len() as u16 + 3;
    let [title, throughput, latency, changes, progress, help] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Fill(3),
        Constraint::Fill(2),
        Constraint::Length(table_rows),
        Constraint::Length(1),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    frame.render_widget(Paragraph::new(story.title.as_str().bold()), title);
    let columns = throughput.width.saturating_sub(2 + SCALE_COLUMNS);
    let shown = last(story.now, columns);
    draw_throughput(frame, throughput, story, shown);
    draw_latency(frame, latency, story, shown);
    draw_changes(frame, changes, story);
    draw_progress(frame, progress, story);
    let words = if story.is_over() {
        "all changes are made, the clients go on · q: quit and see the summary"
    } else {
        "q: quit and see the summary"
    };
    frame.render_widget(Paragraph::new(words.dim()), help);
}

/// As many whole windows as there are columns, up to the last that has ended.
fn last(now: Duration, columns: u16) -> Span {
    let windows = (now.as_nanos() / WINDOW.as_nanos()) as u32;
    let end = WINDOW * windows;
    Span { start: WINDOW * windows.saturating_sub(u32::from(columns)), end }
}

fn draw_throughput(frame: &mut Frame<'_>, area: Rect, story: &Story, shown: Span) {
    let values = story.recording.windows(shown, WINDOW);
    let now = values.last().copied().unwrap_or(0.0);
    let title = format!(" throughput: {} transactions/s ", number(now.round()));
    draw_columns(frame, area, story, (shown, &values), &title, "/s");
}

fn draw_latency(frame: &mut Frame<'_>, area: Rect, story: &Story, shown: Span) {
    let latencies = story.recording.latencies(shown, WINDOW);
    let values: Vec<f64> = latencies.iter().map(|l| l.quantile_us(0.99)).collect();
    let now = latencies.last().map_or((0.0, 0.0), |l| (l.quantile_us(0.5), l.quantile_us(0.99)));
    let (p50, p99) = (number(now.0 / 1000.0), number(now.1 / 1000.0));
    let title = format!(" latency, p99: {p99} ms (p50: {p50} ms) ");
    draw_columns(frame, area, story, (shown, &values), &title, " µs");
}

/// A column for each window, with the scale at the left.
fn draw_columns(
    frame: &mut Frame<'_>,
    area: Rect,
    story: &Story,
    (shown, values): (Span, &[f64]),
    title: &str,
    unit: &str,
) {
    let block = Block::bordered().title(title.to_owned());
    let inner = block.inner(area);
    frame.render_widget(block, area);
    let [scale, columns] =
        Layout::horizontal([Constraint::Length(SCALE_COLUMNS), Constraint::Fill(1)]).areas(inner);
    let highest = values.iter().copied().fold(1.0, f64::max).round();
    let top = format!("{}{unit}", number(highest));
    frame.render_widget(Paragraph::new(top.dim()), Rect { height: 1.min(scale.height), ..scale });
    if scale.height > 1 {
        let bottom = Rect { y: scale.bottom() - 1, height: 1, ..scale };
        frame.render_widget(Paragraph::new("0".dim()), bottom);
    }
    let bars = values.iter().zip(0u32..).map(|(value, n)| {
        let start = shown.start + WINDOW * n;
        let changing = story.changing_in(Span { start, end: start + WINDOW });
        let colour = if changing { CHANGING } else { CALM };
        SparklineBar::from(value.round() as u64).style(Style::new().fg(colour))
    });
    let sparkline = Sparkline::default().data(bars.collect::<Vec<_>>()).max(highest as u64);
    frame.render_widget(sparkline, columns);
}

fn draw_changes(frame: &mut Frame<'_>, area: Rect, story: &Story) {
    let widths = [
        Constraint::Length(1),
        Constraint::Fill(1),
        Constraint::Length(9),
        Constraint::Length(8),
        Constraint::Length(11),
        Constraint::Length(6),
    ];
    let header = Row::new(["", "", "time", "during", "longest gap", "failed"]).dim();
    let table = Table::new(story.chapters.iter().map(row), widths)
        .header(header)
        .block(Block::bordered().title(" schema changes "));
    frame.render_widget(table, area);
}

fn row(chapter: &Chapter) -> Row<'_> {
    let title = chapter.change.title;
    match &chapter.state {
        State::Waiting => Row::new(["·", title]).dim(),
        State::Running { .. } => Row::new(["▶", title]).fg(CHANGING),
        State::Failed { .. } => Row::new(["✗", title, "refused"]).red(),
        State::Done(figures) => {
            let [time, ratio, gap, failed] = cells(figures);
            let mark = Words::from("✓").green();
            Row::new([
                Line::from(mark),
                title.into(),
                time.into(),
                ratio.into(),
                gap.into(),
                failed.into(),
            ])
        }
    }
}

/// Time, throughput during as a share of that before, longest gap, failed transactions. What took no
/// time has no throughput that would mean anything.
pub fn cells(figures: &Figures) -> [String; 4] {
    let long = figures.span.length() >= SHORTEST;
    let ratio = if long { format!("{:.0} %", figures.ratio() * 100.0) } else { "–".to_owned() };
    let ms = |d: Duration| number(d.as_secs_f64() * 1000.0);
    [
        format!("{} ms", ms(figures.span.length())),
        ratio,
        format!("{} ms", ms(figures.longest_gap)),
        figures.failed.to_string(),
    ]
}

fn draw_progress(frame: &mut Frame<'_>, area: Rect, story: &Story) {
    let Some(Chapter { state: State::Running { progress, begun }, .. }) = story.running() else {
        return;
    };
    let phase = if progress.phase.is_empty() { "begun" } else { &progress.phase };
    let seconds = story.now.saturating_sub(*begun).as_secs_f64();
    let label = format!(
        "{phase} {:.0} %, {seconds:.1} s: {} rows scanned, {} captured, {} waiting ",
        progress.percent,
        number(progress.scanned as f64),
        number(progress.captured as f64),
        number(progress.backlog as f64),
    );
    let gauge = LineGauge::default()
        .ratio((progress.percent / 100.0).clamp(0.0, 1.0))
        .label(label)
        .filled_style(Style::new().fg(CHANGING));
    frame.render_widget(gauge, area);
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::*;
    use crate::demo::story::tests::story;

    fn drawn(width: u16, height: u16) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, &story())).unwrap();
        let buffer = terminal.backend().buffer();
        let cell = |x, y| buffer.cell((x, y)).map_or(" ", |cell| cell.symbol());
        (0..height).map(|y| (0..width).map(|x| cell(x, y)).collect()).collect()
    }

    #[test]
    fn everything_fits_on_a_small_terminal_and_on_a_large_one() {
        for (width, height) in [(80, 24), (140, 45)] {
            let lines = drawn(width, height);
            let has = |what: &str| lines.iter().any(|line| line.contains(what));
            assert!(has("throughput: "), "{lines:#?}");
            assert!(has("✓ ADD COLUMN ol_tax, computed") && has("300 ms") && has("110 ms"));
            assert!(has("▶ ADD CHECK") && has("· DROP COLUMN ol_vat"), "{lines:#?}");
            assert!(has("capture 70 %") && has("210,000 rows scanned"), "{lines:#?}");
            assert!(lines.last().unwrap().starts_with("q: quit"));
            assert!(lines.iter().flat_map(|line| line.chars()).any(|c| ('▁'..='█').contains(&c)));
        }
    }

    #[test]
    fn a_terminal_without_room_is_no_panic() {
        for (width, height) in [(1, 1), (10, 3), (30, 8), (9, 40)] {
            drawn(width, height);
        }
    }

    #[test]
    fn columns_are_whole_windows() {
        let ms = Duration::from_millis;
        assert_eq!(last(ms(1050), 3), Span { start: ms(400), end: ms(1000) });
        assert_eq!(last(ms(350), 70), Span { start: ms(0), end: ms(200) });
    }
}
