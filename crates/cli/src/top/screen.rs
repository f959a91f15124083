//! The view on a terminal, until a key ends it.

use super::choice::{Choice, KEYS};
use super::columns::{Column, fitting};
use super::past::Past;
use super::view::{Mood, Row, View};
use crate::output::colour;
use headstart_core::time::Duration;
use headstart_io::board;
use headstart_io::clock::Clock;
use headstart_io::forward::board::Board;
use ratatui::Frame;
use ratatui::crossterm::event::{self, Event, KeyEventKind, KeyModifiers};
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::Paragraph;

/// Shows how process `pid` measures until a key or its end says that it is enough.
pub fn show(pid: u32, mut view: View, every: Duration) -> anyhow::Result<()> {
    let mut terminal = ratatui::try_init()?;
    let clock = Clock::new();
    let (mut choice, mut past) = (Choice::default(), Past::default());
    let mut ended = None;
    let mut watch = || -> anyhow::Result<()> {
        let mut next = clock.now() + every;
        loop {
            terminal.draw(|frame| draw(frame, &view, &past, &choice))?;
            while event::poll(next.since(clock.now()))? {
                if let Event::Key(key) = event::read()?
                    && key.kind != KeyEventKind::Release
                {
                    let shown = fitting(choice.columns(), usize::from(terminal.size()?.width), |_| true);
                    if choice.key(key.code, key.modifiers.contains(KeyModifiers::CONTROL), &shown) {
                        return Ok(());
                    }
                }
                terminal.draw(|frame| draw(frame, &view, &past, &choice))?;
            }
            match board::ask::<Board>(pid) {
                Ok(later) => {
                    let later = View::between(&view.board, later);
                    past.update(&view.board, &later.board);
                    view = later;
                }
                Err(why) => {
                    ended = Some(why);
                    return Ok(());
                }
            }
            next = clock.now() + every;
        }
    };
    let watched = watch();
    ratatui::try_restore()?;
    if let Some(why) = ended {
        crate::complain!("headstart: process {pid} stopped measuring ({why})");
    }
    watched
}

/// Draws the view.
pub fn draw(frame: &mut Frame<'_>, view: &View, past: &Past, choice: &Choice) {
    let areas =
        Layout::vertical([Constraint::Length(1), Constraint::Min(0), Constraint::Length(1)]).split(frame.area());
    frame.render_widget(Line::from(view.title(frame.area().width.into())), areas[0]);
    let lines = if choice.help { help(choice) } else { rows(view, past, choice, areas[1]) };
    frame.render_widget(Paragraph::new(lines), areas[1]);
    let foot = match choice {
        Choice { typing: true, filter, .. } => format!("show only: {filter}_"),
        Choice { filter, .. } if !filter.is_empty() => format!("only {filter:?}   Esc: all   ?: help   q: quit"),
        _ => "?: help   q: quit   c: connections   s: sort   /: filter".to_owned(),
    };
    frame.render_widget(Line::from(foot), areas[2]);
}

/// The heading and as many rows as there is room for.
fn rows<'a>(view: &View, past: &Past, choice: &Choice, area: Rect) -> Vec<Line<'a>> {
    let columns = choice.columns();
    let shown = fitting(columns, usize::from(area.width), |_| true);
    // The first column takes what is left.
    let taken = shown.iter().map(|n| usize::from(columns[*n].width) + 1).sum::<usize>();
    let spare = (usize::from(area.width) + 1).saturating_sub(taken);
    let line = |text: &dyn Fn(usize) -> String| {
        let cell = |n: &usize| {
            let width = usize::from(columns[*n].width) + if *n == 0 { spare } else { 0 };
            cut(&text(*n), width, &columns[*n])
        };
        shown.iter().map(cell).collect::<Vec<_>>().join(" ")
    };
    let heading = line(&|n| match (choice.sorted == Some(n), choice.reversed) {
        (false, _) => columns[n].heading.to_owned(),
        (true, false) => format!("{}▾", columns[n].heading),
        (true, true) => format!("{}▴", columns[n].heading),
    });
    let all = choice.of(if choice.connections { view.connection_rows(past) } else { view.app_rows(past) });
    // The last row stays in sight.
    let skipped = choice.skipped.min(all.len().saturating_sub(1));
    let row = |row: &Row| Line::styled(line(&|n| row.cells[n].text.clone()), style(row.mood));
    let strong = if colour() { Style::new().add_modifier(Modifier::REVERSED) } else { Style::new() };
    let mut lines = vec![Line::styled(heading, strong)];
    lines.extend(all.iter().skip(skipped).take(area.height.into()).map(row));
    lines
}

fn style(mood: Mood) -> Style {
    match mood {
        _ if !colour() => Style::new(),
        Mood::Plain => Style::new(),
        Mood::Failing => Style::new().fg(Color::Red),
        Mood::Closed => Style::new().add_modifier(Modifier::DIM),
    }
}

/// A text as wide as it may be, its end left out if it is too long.
fn cut(text: &str, width: usize, column: &Column) -> String {
    let length = text.chars().count();
    let space = " ".repeat(width.saturating_sub(length));
    match column.is_name() {
        _ if length > width => text.chars().take(width.saturating_sub(1)).chain(['…']).collect(),
        true => text.to_owned() + &space,
        false => space + text,
    }
}

/// Keys and columns.
fn help<'a>(choice: &Choice) -> Vec<Line<'a>> {
    let keys = KEYS.iter().map(|(key, what)| format!("{key:<8} {what}"));
    let columns = choice.columns().iter().map(|column| format!("{:<8} {}", column.heading, column.what));
    keys.chain([String::new()]).chain(columns).map(Line::from).collect()
}

#[cfg(test)]
mod tests {
    use super::super::view::tests::board;
    use super::*;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    fn screen(view: &View, choice: &Choice, width: u16) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, 6)).unwrap();
        terminal.draw(|frame| draw(frame, view, &Past::default(), choice)).unwrap();
        let buffer = terminal.backend().buffer().clone();
        let line = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>();
        (0..6).map(line).collect()
    }

    #[test]
    fn programs_and_connections_are_on_the_screen() {
        let view = View::between(&board(1000.0, 0), board(2000.0, 125_000));
        let shown = screen(&view, &Choice::default(), 140);
        assert!(shown[0].starts_with("process 7, 2 s"), "{shown:#?}");
        assert!(shown[1].starts_with("APP") && shown[1].trim_end().ends_with("RETR"), "{shown:#?}");
        assert!(shown[2].starts_with("curl") && shown[2].contains("34.5") && shown[2].contains("1.00"), "{shown:#?}");
        assert!(shown[5].starts_with("?: help"), "{shown:#?}");
        let connections = Choice { connections: true, ..Choice::default() };
        let shown = screen(&view, &connections, 140);
        assert!(shown[2].contains("198.51.100.1:443") && shown[2].contains("77"), "{shown:#?}");
        // Nothing scrolls past the last row.
        assert_eq!(screen(&view, &Choice { skipped: 9, ..connections }, 140), shown);
    }

    #[test]
    fn sixty_columns_are_enough_for_headings_and_help() {
        let view = View::first(board(1000.0, 0));
        for connections in [false, true] {
            let shown = screen(&view, &Choice { connections, sorted: Some(4), ..Choice::default() }, 60);
            assert!(shown[1].trim_end().len() <= 62 && shown[1].contains("RTT ms▾"), "{shown:#?}");
            assert!(shown[0].contains("9 packets") && shown[5].contains("/: filter"), "{shown:#?}");
            let choice = Choice { connections, ..Choice::default() };
            for line in help(&choice) {
                assert!(line.width() <= 60, "{line:?}");
            }
        }
        let help = screen(&view, &Choice { help: true, ..Choice::default() }, 80);
        assert!(help[1].starts_with("q, Esc   quit;"), "{help:#?}");
    }

    #[test]
    fn a_long_name_is_cut_and_a_filter_is_said() {
        let mut board = board(1000.0, 0);
        board.apps[0].name = "a-program-with-a-name-of-its-own".into();
        let view = View::first(board);
        let shown = screen(&view, &Choice { filter: "program".into(), ..Choice::default() }, 60);
        assert!(shown[2].starts_with("a-program-with-a-") && shown[2].contains('…'), "{shown:#?}");
        assert!(shown[5].starts_with("only \"program\""), "{shown:#?}");
        let none = screen(&view, &Choice { filter: "x".into(), typing: true, ..Choice::default() }, 60);
        assert!(none[2].trim().is_empty() && none[5].starts_with("show only: x_"), "{none:#?}");
    }
}
