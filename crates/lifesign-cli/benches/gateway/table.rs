//! The figures of all proxies, side by side, and the goals.

use crate::proxies::Kind;
use crate::say;

/// A figure of each proxy that was measured.
pub(crate) struct Row {
    name: &'static str,
    /// What the gateway is to reach; a rate is to be at least, all else at most so much.
    goal: Option<f64>,
    is_rate: bool,
    /// What nginx had where the goal was set.
    nginx: Option<f64>,
    values: Vec<(Kind, f64)>,
}

/// Figures with a title.
pub(crate) struct Table {
    title: String,
    rows: Vec<Row>,
}

impl Table {
    pub(crate) fn new(title: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            rows: Vec::new(),
        }
    }

    /// Adds the figure `name` of a proxy.
    pub(crate) fn add(&mut self, name: &'static str, kind: Kind, value: f64) {
        let at = self.row(name);
        self.rows[at].values.push((kind, value));
    }

    /// Sets what the gateway is to reach at the most.
    pub(crate) fn at_most(&mut self, name: &'static str, goal: f64) -> &mut Row {
        let at = self.row(name);
        let row = &mut self.rows[at];
        row.goal = Some(goal);
        row
    }

    /// Sets what the gateway is to reach at the least.
    pub(crate) fn at_least(&mut self, name: &'static str, goal: f64) -> &mut Row {
        let row = self.at_most(name, goal);
        row.is_rate = true;
        row
    }

    /// Returns where the row of this name is.
    fn row(&mut self, name: &'static str) -> usize {
        let at = self.rows.iter().position(|row| row.name == name);
        at.unwrap_or_else(|| {
            self.rows.push(Row {
                name,
                goal: None,
                is_rate: false,
                nginx: None,
                values: Vec::new(),
            });
            self.rows.len() - 1
        })
    }

    pub(crate) fn print(&self) {
        let column = |text: &str| format!(" {text:>9}");
        let names: String = Kind::ALL.map(Kind::name).map(column).concat();
        let title = &self.title;
        say(&format!(
            "\n{title:48}{names} {:>9} {:>9}",
            "goal", "by nginx"
        ));
        for row in &self.rows {
            let values = Kind::ALL.map(|kind| row.of(kind).map(number).unwrap_or_default());
            let values = values.map(|value| column(&value)).concat();
            let goal = row.goal.map(number).unwrap_or_default();
            let here = row.nginx.and_then(|_| row.goal_here()).map(number);
            let here = here.unwrap_or_default();
            let verdict = match row.is_reached() {
                Some(true) => "reached",
                Some(false) => "MISSED",
                None => "",
            };
            let name = row.name;
            say(&format!("{name:48}{values} {goal:>9} {here:>9}  {verdict}"));
        }
    }
}

impl Row {
    /// Says what nginx had where the goal was set: another machine is measured by nginx there.
    pub(crate) fn beside_nginx(&mut self, nginx: f64) {
        self.nginx = Some(nginx);
    }

    /// Returns the goal as it is on this machine.
    fn goal_here(&self) -> Option<f64> {
        let nginx = self.of(Kind::Nginx).zip(self.nginx);
        Some(self.goal? * nginx.map_or(1.0, |(here, there)| here / there))
    }

    fn of(&self, kind: Kind) -> Option<f64> {
        let mut values = self.values.iter();
        values
            .find(|(found, _)| *found == kind)
            .map(|(_, value)| *value)
    }

    fn is_reached(&self) -> Option<bool> {
        let (goal, value) = (self.goal_here()?, self.of(Kind::Lifesign)?);
        Some(if self.is_rate {
            value >= goal
        } else {
            value <= goal
        })
    }
}

fn number(value: f64) -> String {
    if value.abs() >= 1000.0 {
        format!("{value:.0}")
    } else {
        format!("{value:.1}")
    }
}
