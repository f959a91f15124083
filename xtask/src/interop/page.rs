//! The table of what came of it.

use super::case;

/// All cases of one stack in one direction.
#[derive(Debug)]
pub struct Row {
    /// Which stack.
    pub peer: &'static str,
    /// In whose direction.
    pub direction: &'static str,
    /// Case by case.
    pub cells: Vec<Cell>,
}

/// One case.
#[derive(Debug)]
pub struct Cell {
    /// Which.
    pub case: &'static str,
    /// How often it was played; 0: the stack cannot.
    pub rounds: u32,
    /// What went wrong, a line each.
    pub bad: Vec<String>,
    /// What the stack is known to do wrong in it.
    pub known: Option<&'static str>,
}

impl Cell {
    /// How many rounds were good.
    pub fn told(&self) -> String {
        match self.rounds {
            0 => "–".to_owned(),
            rounds => format!("{} of {rounds}", rounds as usize - self.bad.len()),
        }
    }
}

/// The page.
pub fn text(versions: &[String], rows: &[Row], rounds: u32) -> String {
    let cases = rows.first().map_or(&[][..], |row| &row.cells[..]);
    let mut text = format!(
        "# Other QUIC stacks\n\n`cargo xtask interop` writes this page: each case {rounds} times, through a relay over loopback. A round that has \
         not ended after\n{} s is a stall. Stalls count as bad, as do a wrong status, a wrong length and an early request that was not \
         taken.\n\nVersions: {}.\n\n| |{}\n|---|{}\n",
        super::round::LIMIT.as_secs(),
        versions.join(", "),
        cases.iter().map(|cell| format!(" {} |", cell.case)).collect::<String>(),
        "---:|".repeat(cases.len()),
    );
    for row in rows {
        let cells: String = row.cells.iter().map(|cell| format!(" {} |", cell.told())).collect();
        text += &format!("| {} {} |{cells}\n", row.peer, row.direction);
    }
    text += "\n– : the stack has no program for it, or does not tell. `headstart get` fetches one file over a connection.\n\n";
    for case in case::ALL {
        text += &format!("- **{}**: {}\n", case.name, case.what);
    }
    let bad =
        rows.iter().flat_map(|row| row.cells.iter().filter(|cell| !cell.bad.is_empty()).map(move |cell| (row, cell)));
    for (n, (row, cell)) in bad.enumerate() {
        text += if n == 0 { "\n## What was bad\n\n" } else { "" };
        let known = |what: &str| format!("- {} {}, {}: {what}\n", row.peer, row.direction, cell.case);
        text += &cell.known.map_or_else(String::new, known);
        cell.bad.iter().for_each(|why| text += &format!("- {}\n", why.replace('|', "\\|")));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_a_cell_for_each_case_and_what_was_bad_is_named_below() {
        let bad = |bad: &[&str]| bad.iter().map(|&b| b.to_owned()).collect();
        let cell = |case, rounds, why: &[&str]| Cell { case, rounds, bad: bad(why), known: Some("it forgets") };
        let cells = vec![cell("handshake", 50, &[]), cell("loss", 50, &["round 3: a stall"]), cell("requests", 0, &[])];
        let text = text(&["x 1.0".to_owned()], &[Row { peer: "x", direction: "here", cells }], 50);
        assert!(text.contains("| | handshake | loss | requests |\n|---|---:|---:|---:|\n"), "{text}");
        assert!(
            text.contains("| x here | 50 of 50 | 49 of 50 | – |\n")
                && text.ends_with("- x here, loss: it forgets\n- round 3: a stall\n"),
            "{text}"
        );
    }
}
