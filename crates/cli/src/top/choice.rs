//! What is chosen with keys: programs or connections, the order of rows, which of them, the help.

use super::columns::{APPS, CONNECTIONS, Column};
use super::view::Row;
use ratatui::crossterm::event::KeyCode;
use std::cmp::Ordering;

/// Keys, for the help.
pub const KEYS: [(&str, &str); 7] = [
    ("q, Esc", "quit; with a filter set, Esc clears it"),
    ("c, Tab", "connections or programs"),
    ("s, S", "sort by the next column, by the one before"),
    ("r", "reverse the order"),
    ("/", "show only rows that contain a text; Esc: all"),
    ("arrows", "scroll by a row; Page Up, Page Down: by ten"),
    ("?", "this help"),
];

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    /// Connections rather than programs.
    pub connections: bool,
    /// Rows that are above the first one shown.
    pub skipped: usize,
    /// By which column rows are sorted; in the order of the measurement if by none.
    pub sorted: Option<usize>,
    /// Whether the least, and the first letter, come last.
    pub reversed: bool,
    /// What the name of a program or the peer contains.
    pub filter: String,
    /// Whether letters go into the filter.
    pub typing: bool,
    /// Whether the help is shown.
    pub help: bool,
}

impl Choice {
    /// The columns that there are.
    pub fn columns(&self) -> &'static [Column] {
        if self.connections { &CONNECTIONS } else { &APPS }
    }

    /// A key was pressed, and these columns are on the screen; returns whether the view ends.
    pub fn key(&mut self, key: KeyCode, control: bool, shown: &[usize]) -> bool {
        if control {
            return key == KeyCode::Char('c');
        }
        if self.typing {
            self.typed(key);
            return false;
        }
        if self.help {
            self.help = false;
            return matches!(key, KeyCode::Char('q'));
        }
        match key {
            KeyCode::Esc if !self.filter.is_empty() => (self.skipped, self.filter) = (0, String::new()),
            KeyCode::Char('q') | KeyCode::Esc => return true,
            KeyCode::Char('c') | KeyCode::Tab => {
                *self = Self {
                    connections: !self.connections,
                    filter: std::mem::take(&mut self.filter),
                    ..Self::default()
                };
            }
            KeyCode::Char('s') => self.sorted = next(shown, self.sorted, 1),
            KeyCode::Char('S') => self.sorted = next(shown, self.sorted, shown.len()),
            KeyCode::Char('r') => self.reversed = !self.reversed,
            KeyCode::Char('/') => self.typing = true,
            KeyCode::Char('?' | 'h') => self.help = true,
            KeyCode::Down => self.skipped += 1,
            KeyCode::Up => self.skipped = self.skipped.saturating_sub(1),
            KeyCode::PageDown => self.skipped += 10,
            KeyCode::PageUp => self.skipped = self.skipped.saturating_sub(10),
            _ => {}
        }
        false
    }

    fn typed(&mut self, key: KeyCode) {
        self.skipped = 0;
        match key {
            KeyCode::Char(letter) => self.filter.push(letter),
            KeyCode::Backspace => _ = self.filter.pop(),
            KeyCode::Enter => self.typing = false,
            KeyCode::Esc => (self.typing, self.filter) = (false, String::new()),
            _ => {}
        }
    }

    /// The rows that are wanted, in the order that is wanted, numbers from the most to the least.
    pub fn of(&self, mut rows: Vec<Row>) -> Vec<Row> {
        let wanted = self.filter.to_lowercase();
        let names: Vec<usize> = (0..self.columns().len()).filter(|n| self.columns()[*n].is_name()).collect();
        rows.retain(|row| names.iter().any(|n| row.cells[*n].text.to_lowercase().contains(&wanted)));
        let Some(by) = self.sorted else { return rows };
        rows.sort_by(|a, b| {
            let (a, b) = (&a.cells[by], &b.cells[by]);
            let order = match (a.number, b.number) {
                (Some(a), Some(b)) => b.total_cmp(&a),
                // What is not known comes last, whatever the order.
                (Some(_), None) => return Ordering::Less,
                (None, Some(_)) => return Ordering::Greater,
                (None, None) => a.text.cmp(&b.text),
            };
            if self.reversed { order.reverse() } else { order }
        });
        rows
    }
}

/// The column that is `step` further on among those shown, and none after the last.
fn next(shown: &[usize], sorted: Option<usize>, step: usize) -> Option<usize> {
    let at = sorted.and_then(|by| shown.iter().position(|n| *n == by)).map_or(0, |at| at + 1);
    shown.get(((at + step) % (shown.len() + 1)).checked_sub(1)?).copied()
}

#[cfg(test)]
mod tests {
    use super::super::past::Past;
    use super::super::view::{View, tests::board};
    use super::*;

    const SHOWN: [usize; 3] = [0, 1, 4];

    fn press(choice: &mut Choice, keys: &str) {
        for key in keys.chars() {
            assert!(!choice.key(KeyCode::Char(key), false, &SHOWN), "{key}");
        }
    }

    #[test]
    fn keys_choose_and_end() {
        let mut choice = Choice::default();
        press(&mut choice, "c");
        assert!(choice.connections);
        for (key, skipped) in [(KeyCode::Down, 1), (KeyCode::PageDown, 11), (KeyCode::PageUp, 1), (KeyCode::Up, 0)] {
            assert!(!choice.key(key, false, &SHOWN) && choice.skipped == skipped, "{key}");
        }
        assert!(!choice.key(KeyCode::Up, false, &SHOWN) && choice.skipped == 0);
        press(&mut choice, "?");
        assert!(choice.help);
        assert!(!choice.key(KeyCode::Esc, false, &SHOWN) && !choice.help, "a key closes the help");
        for key in ['q', 'c'] {
            assert!(choice.key(KeyCode::Char(key), key == 'c', &SHOWN));
        }
        assert!(choice.key(KeyCode::Esc, false, &SHOWN));
    }

    #[test]
    fn the_columns_that_are_shown_take_turns_in_ordering() {
        let mut choice = Choice::default();
        let mut seen = Vec::new();
        for key in ["s", "s", "s", "s", "S", "S"] {
            press(&mut choice, key);
            seen.push(choice.sorted);
        }
        assert_eq!(seen, [Some(0), Some(1), Some(4), None, Some(4), Some(1)]);
    }

    #[test]
    fn rows_are_filtered_and_sorted() {
        let mut board = board(0.0, 0);
        for (name, rtt) in [("wget", Some(40.0)), ("apt-get", None), ("Curious", Some(9.0))] {
            let mut app = board.apps[0].clone();
            app.name = name.into();
            app.meters.remove("rtt_ms");
            rtt.into_iter().for_each(|rtt| _ = app.meters.insert("rtt_ms".into(), rtt));
            board.apps.push(app);
        }
        let view = View::first(board);
        let names = |choice: &Choice| {
            let rows = choice.of(view.app_rows(&Past::default()));
            rows.iter().map(|row| row.cells[0].text.clone()).collect::<Vec<_>>()
        };
        let mut choice = Choice::default();
        assert_eq!(names(&choice), ["curl", "wget", "apt-get", "Curious"]);
        choice.sorted = Some(4);
        assert_eq!(names(&choice), ["wget", "curl", "Curious", "apt-get"]);
        choice.reversed = true;
        assert_eq!(names(&choice), ["Curious", "curl", "wget", "apt-get"]);
        press(&mut choice, "/curq");
        choice.key(KeyCode::Backspace, false, &SHOWN);
        choice.key(KeyCode::Enter, false, &SHOWN);
        assert_eq!((names(&choice), choice.typing), (vec!["Curious".to_owned(), "curl".to_owned()], false));
        assert!(!choice.key(KeyCode::Esc, false, &SHOWN), "Esc clears a filter first");
        assert_eq!(names(&choice).len(), 4);
        press(&mut choice, "/curq");
        choice.key(KeyCode::Esc, false, &SHOWN);
        assert_eq!((names(&choice).len(), choice.typing), (4, false));
    }
}
