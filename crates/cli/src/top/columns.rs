//! The columns of programs and of connections, and which of them fit into a width.

/// A column.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// What its first line says.
    pub heading: &'static str,
    /// How wide it is.
    pub width: u16,
    /// The lower, the longer it stays where there is little room.
    pub rank: u8,
    /// What it shows, for the help.
    pub what: &'static str,
    /// Whether it is shown only where the view goes on: it needs more than two moments.
    pub only_live: bool,
}

const fn column(heading: &'static str, width: u16, rank: u8, what: &'static str) -> Column {
    Column { heading, width, rank, what, only_live: false }
}

/// Of programs.
pub const APPS: [Column; 13] = [
    column("APP", 15, 0, "program"),
    column("OPEN", 5, 2, "connections that are open now"),
    column("ALL", 6, 9, "connections so far"),
    column("FAILED", 6, 6, "connections that failed"),
    column("RTT ms", 8, 1, "round-trip time, median of recent connections"),
    Column { only_live: true, ..column("TREND", 8, 7, "recent round-trip times, least to most") },
    column("CONNECT", 8, 3, "time to connect, in ms"),
    column("DNS ms", 8, 8, "time of a lookup, median of the latest"),
    column("UP Mb/s", 8, 5, "what it sends"),
    column("DOWN", 8, 4, "what it receives, in Mbit/s"),
    column("GAP ms", 8, 12, "median time between two packets received"),
    column("LONGEST", 8, 11, "longest time between two packets received, in ms"),
    column("RETR", 6, 10, "retransmitted packets"),
];

/// Of connections.
pub const CONNECTIONS: [Column; 11] = [
    column("APP", 12, 0, "program"),
    column("PID", 8, 9, "process"),
    column("PEER", 28, 1, "address and port; UDP and QUIC are marked"),
    column("AGE s", 5, 3, "seconds open; `ended` for a minute after its end"),
    column("RTT ms", 8, 2, "round-trip time"),
    column("CONNECT", 8, 5, "ms to connect; `raced` if headstart connected"),
    column("UP Mb/s", 8, 6, "what the program sends"),
    column("DOWN", 8, 4, "what the program receives, in Mbit/s"),
    column("GAP ms", 8, 10, "median time between two packets received"),
    column("LONGEST", 8, 8, "longest time between two packets received, in ms"),
    column("RETR", 6, 7, "retransmitted packets"),
];

impl Column {
    /// Whether it holds names, which stand to the left.
    pub fn is_name(&self) -> bool {
        matches!(self.heading, "APP" | "PEER" | "TREND")
    }

    /// A text as wide as the column: names to the left, numbers to the right.
    pub fn aligned(&self, text: &str) -> String {
        let width = usize::from(self.width);
        if self.is_name() { format!("{text:<width$}") } else { format!("{text:>width$}") }
    }
}

/// The columns that fit into `width` with a space between two of them, those of the lowest rank first; in their order.
pub fn fitting(columns: &[Column], width: usize, wanted: impl Fn(&Column) -> bool) -> Vec<usize> {
    let mut by_rank: Vec<usize> = (0..columns.len()).filter(|n| wanted(&columns[*n])).collect();
    by_rank.sort_by_key(|n| columns[*n].rank);
    let mut left = width + 1;
    by_rank.retain(|n| {
        let takes = usize::from(columns[*n].width) + 1;
        let fits = takes <= left;
        left -= if fits { takes } else { 0 };
        fits
    });
    by_rank.sort_unstable();
    by_rank
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_narrower_the_fewer_columns_and_none_is_cut() {
        let headings = |columns: &[Column], width| {
            fitting(columns, width, |_| true).iter().map(|n| columns[*n].heading).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(headings(&APPS, 60), "APP OPEN RTT ms CONNECT UP Mb/s DOWN");
        assert_eq!(headings(&APPS, 80), "APP OPEN ALL FAILED RTT ms TREND CONNECT UP Mb/s DOWN");
        assert_eq!(headings(&CONNECTIONS, 60), "APP PEER AGE s RTT ms");
        for columns in [&APPS[..], &CONNECTIONS] {
            assert_eq!(fitting(columns, 200, |_| true).len(), columns.len());
            assert!(fitting(columns, 3, |_| true).is_empty());
            let mut ranks: Vec<u8> = columns.iter().map(|column| column.rank).collect();
            ranks.sort_unstable();
            ranks.dedup();
            assert_eq!(ranks.len(), columns.len(), "each has a rank of its own");
        }
    }
}
