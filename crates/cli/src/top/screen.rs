//! The view on a terminal, until somebody has seen enough.

use super::view::{APPS, CONNECTIONS, View, is_name};
use crate::output::colour;
use headstart_core::time::Duration;
use headstart_io::clock::Clock;
use headstart_io::forward::board;
use ratatui::Frame;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::layout::{Alignment, Constraint, Layout};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Text};
use ratatui::widgets::{Cell, Row, Table};

/// What the last line says.
const KEYS: &str = "q: quit   c: connections/programs   up, down: scroll";

/// What is chosen with keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    /// Connections rather than programs.
    pub connections: bool,
    /// Rows that are above the first one shown.
    pub skipped: usize,
}

impl Choice {
    /// A key was pressed; whether that is enough.
    pub fn key(&mut self, key: KeyCode, control: bool) -> bool {
        match key {
            KeyCode::Char('q') | KeyCode::Esc => return true,
            KeyCode::Char('c') if control => return true,
            KeyCode::Char('c') | KeyCode::Tab => *self = Self { connections: !self.connections, skipped: 0 },
            KeyCode::Down => self.skipped += 1,
            KeyCode::Up => self.skipped = self.skipped.saturating_sub(1),
            _ => {}
        }
        false
    }
}

/// Shows how process `pid` measures until a key or its end says that it is enough.
pub fn show(pid: u32, mut view: View, every: Duration) -> anyhow::Result<()> {
    let mut terminal = ratatui::try_init()?;
    let clock = Clock::new();
    let mut choice = Choice::default();
    let mut ended = None;
    let mut watch = || -> anyhow::Result<()> {
        let mut next = clock.now() + every;
        loop {
            terminal.draw(|frame| draw(frame, &view, choice))?;
            while event::poll(next.since(clock.now()))? {
                if let Event::Key(key) = event::read()?
                    && key.kind != KeyEventKind::Release
                    && choice.key(key.code, key.modifiers.contains(KeyModifiers::CONTROL))
                {
                    return Ok(());
                }
                terminal.draw(|frame| draw(frame, &view, choice))?;
            }
            match board::ask(pid) {
                Ok(later) => view = View::between(&view.board, later),
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
pub fn draw(frame: &mut Frame<'_>, view: &View, choice: Choice) {
    let areas =
        Layout::vertical([Constraint::Length(1), Constraint::Min(0), Constraint::Length(1)]).split(frame.area());
    let strong = if colour() { Style::new().add_modifier(Modifier::REVERSED) } else { Style::new() };
    frame.render_widget(Line::from(view.title()), areas[0]);
    if choice.connections {
        let rows = view.connection_rows();
        frame.render_widget(table(rows.iter().map(|row| &row[..]), &CONNECTIONS, choice, strong), areas[1]);
    } else {
        let rows = view.app_rows();
        frame.render_widget(table(rows.iter().map(|row| &row[..]), &APPS, choice, strong), areas[1]);
    }
    frame.render_widget(Line::from(KEYS), areas[2]);
}

fn table<'a>(
    rows: impl ExactSizeIterator<Item = &'a [String]>,
    columns: &'static [(&'static str, u16)],
    choice: Choice,
    strong: Style,
) -> Table<'a> {
    let cell = |text: &'a str, heading: &str| {
        let side = if is_name(heading) { Alignment::Left } else { Alignment::Right };
        Cell::from(Text::from(text).alignment(side))
    };
    let widths = columns.iter().enumerate().map(|(n, (_, width))| match n {
        0 => Constraint::Min(*width),
        _ => Constraint::Length(*width),
    });
    // The last row stays in sight.
    let skipped = choice.skipped.min(rows.len().saturating_sub(1));
    let rows =
        rows.skip(skipped).map(|row| Row::new(row.iter().zip(columns).map(|(text, (heading, _))| cell(text, heading))));
    let heading = Row::new(columns.iter().map(|(heading, _)| cell(heading, heading))).style(strong);
    Table::new(rows, widths).header(heading)
}

#[cfg(test)]
mod tests {
    use super::super::view::tests::board;
    use super::*;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    fn screen(view: &View, choice: Choice) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(120, 6)).unwrap();
        terminal.draw(|frame| draw(frame, view, choice)).unwrap();
        let buffer = terminal.backend().buffer().clone();
        let line = |y| (0..120).map(|x| buffer[(x, y)].symbol()).collect::<String>();
        (0..6).map(line).collect()
    }

    #[test]
    fn programs_and_connections_are_on_the_screen() {
        let view = View::between(&board(1000.0, 0), board(2000.0, 125_000));
        let shown = screen(&view, Choice::default());
        assert!(shown[0].starts_with("process 7 has measured for 2 s"), "{shown:#?}");
        assert!(shown[1].starts_with("APP") && shown[1].trim_end().ends_with("AGAIN"), "{shown:#?}");
        assert!(shown[2].starts_with("curl") && shown[2].contains("34.5") && shown[2].contains("1.00"), "{shown:#?}");
        assert!(shown[5].starts_with("q: quit"), "{shown:#?}");
        let shown = screen(&view, Choice { connections: true, skipped: 0 });
        assert!(shown[2].contains("198.51.100.1:443") && shown[2].contains("77"), "{shown:#?}");
        // Further than to the last row nobody scrolls.
        assert_eq!(screen(&view, Choice { connections: true, skipped: 9 }), shown);
    }

    #[test]
    fn keys_choose_and_end() {
        let mut choice = Choice::default();
        assert!(!choice.key(KeyCode::Char('c'), false) && choice.connections);
        assert!(!choice.key(KeyCode::Down, false) && choice.skipped == 1);
        assert!(!choice.key(KeyCode::Up, false) && !choice.key(KeyCode::Up, false) && choice.skipped == 0);
        assert!(choice.key(KeyCode::Char('q'), false) && choice.key(KeyCode::Char('c'), true));
        assert!(choice.key(KeyCode::Esc, false));
    }
}
