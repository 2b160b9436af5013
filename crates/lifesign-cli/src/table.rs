//! Rows of text under heads, in columns.

/// Rows under a title. What is measured stands to the right.
pub(crate) struct Table {
    pub(crate) title: &'static str,
    pub(crate) heads: Vec<&'static str>,
    pub(crate) rows: Vec<Vec<String>>,
}

impl Table {
    /// Returns the heads and the rows, a line each.
    pub(crate) fn lines(&self) -> Vec<String> {
        let heads: Vec<_> = self.heads.iter().map(|head| (*head).to_owned()).collect();
        let all = || std::iter::once(&heads).chain(&self.rows);
        let widths: Vec<usize> = (0..heads.len())
            .map(|at| {
                let lens = all().filter_map(|row| row.get(at));
                lens.map(|cell| cell.chars().count()).max().unwrap_or(0)
            })
            .collect();
        all()
            .map(|row| {
                let cells = row.iter().zip(&widths).zip(&self.heads);
                let cells: Vec<_> = cells
                    .map(|((cell, width), head)| {
                        if MEASURED.contains(head) {
                            format!("{cell:>width$}")
                        } else {
                            format!("{cell:<width$}")
                        }
                    })
                    .collect();
                format!("  {}", cells.join("  ").trim_end())
            })
            .collect()
    }
}

/// Columns of numbers.
const MEASURED: [&str; 20] = [
    "attempts",
    "calls",
    "completed",
    "cuts",
    "failed",
    "first content",
    "input",
    "left",
    "limit then",
    "longest",
    "median",
    "not sent",
    "output",
    "partial",
    "shortest",
    "silent",
    "took",
    "unknown",
    "waited",
    "without content",
];
