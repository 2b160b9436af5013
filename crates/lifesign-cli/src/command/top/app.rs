//! What is shown and what is chosen: a state that keys and news change, and that draws nothing.

use std::cmp::Ordering;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use lifesign_gateway::live::{CallNow, EndedCall, HoldNow, Snapshot, Timeline, UpstreamNow};

use crate::output::plain;

/// What a full screen shows of one gateway.
#[derive(Debug)]
pub(super) struct App {
    /// Where the gateway is, as it was asked for.
    pub(super) url: String,
    pub(super) snapshot: Snapshot,
    /// Since when the gateway has not answered, and why.
    pub(super) lost: Option<Lost>,
    pub(super) tab: Tab,
    pub(super) details: Option<Details>,
    pub(super) question: Option<Question>,
    /// What came of the last thing that was done.
    pub(super) note: Option<String>,
    /// What is chosen in each tab, by what it is and not by where it stands: lists move.
    chosen: [Option<String>; Tab::ALL.len()],
}

/// A gateway that does not answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Lost {
    pub(super) why: String,
    pub(super) tries: u32,
}

/// A list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tab {
    Calls,
    Upstreams,
    Failures,
}

/// One call from its beginning on.
#[derive(Debug)]
pub(super) struct Details {
    pub(super) call: String,
    /// What is known, once the gateway has told.
    pub(super) timeline: Option<Box<Timeline>>,
    /// How many rows are scrolled past.
    pub(super) scroll: u16,
}

/// What is about to be done, unless somebody thinks better of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Question {
    Cancel { call: String },
    Release { hold: String, what: String },
}

/// What the gateway is asked, or the wish to go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    Cancel {
        call: String,
    },
    Quit,
    Release {
        hold: String,
    },
    /// This call from its beginning on, or none any more.
    Show {
        call: Option<String>,
    },
}

/// A row of the list of upstreams.
#[derive(Clone, Copy, Debug)]
pub(super) enum UpstreamRow<'a> {
    Upstream(&'a UpstreamNow),
    Hold(&'a HoldNow),
}

impl App {
    pub(super) fn new(url: String, snapshot: Snapshot) -> Self {
        Self {
            url,
            snapshot,
            lost: None,
            tab: Tab::Calls,
            details: None,
            question: None,
            note: None,
            chosen: [const { None }; Tab::ALL.len()],
        }
    }

    /// Takes in what the gateway says now.
    pub(super) fn handle_snapshot(&mut self, snapshot: Snapshot) {
        if self.lost.take().is_some() {
            let is_new = snapshot.started != self.snapshot.started;
            self.note = Some(if is_new {
                "the gateway has started anew".to_owned()
            } else {
                "the gateway answers again".to_owned()
            });
        }
        self.snapshot = snapshot;
    }

    /// Takes in that the gateway does not answer.
    pub(super) fn handle_loss(&mut self, why: String) {
        let tries = self.lost.take().map_or(0, |lost| lost.tries);
        self.lost = Some(Lost {
            why,
            tries: tries + 1,
        });
    }

    /// Takes in one call from its beginning on, if that is still what is looked at.
    pub(super) fn handle_timeline(&mut self, timeline: Box<Timeline>) {
        if let Some(details) = &mut self.details
            && details.call == timeline.id
        {
            details.timeline = Some(timeline);
        }
    }

    /// Takes in a key; returns what is wanted of others.
    pub(super) fn handle_key(&mut self, key: KeyEvent) -> Option<Wish> {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return (key.code == KeyCode::Char('c')).then_some(Wish::Quit);
        }
        self.note = None;
        if let Some(question) = self.question.take() {
            // Whatever is not a yes is a no.
            return matches!(key.code, KeyCode::Char('y' | 'Y')).then(|| question.wish());
        }
        match key.code {
            KeyCode::Char('q') => return Some(Wish::Quit),
            KeyCode::Char('c') => self.question = self.call().map(|call| Question::Cancel { call }),
            KeyCode::Char('r') => self.question = self.hold(),
            _ if self.details.is_some() => return self.handle_key_of_details(key.code),
            KeyCode::Down | KeyCode::Char('j') => self.choose_by(1),
            KeyCode::Up | KeyCode::Char('k') => self.choose_by(-1),
            KeyCode::PageDown => self.choose_by(isize::from(PAGE)),
            KeyCode::PageUp => self.choose_by(isize::from(-PAGE)),
            KeyCode::Home | KeyCode::Char('g') => self.choose_by(isize::MIN),
            KeyCode::End | KeyCode::Char('G') => self.choose_by(isize::MAX),
            KeyCode::Tab | KeyCode::Right | KeyCode::Char('l') => self.tab = self.tab.next(1),
            KeyCode::BackTab | KeyCode::Left | KeyCode::Char('h') => self.tab = self.tab.next(2),
            KeyCode::Char(digit @ '1'..='3') => {
                let at = digit as usize - '1' as usize;
                self.tab = Tab::ALL[at];
            }
            KeyCode::Enter => {
                let call = self.call();
                self.details = call.clone().map(Details::of);
                return call.is_some().then_some(Wish::Show { call });
            }
            _ => {}
        }
        None
    }

    /// Returns the calls in flight, the one that is cut next first.
    pub(super) fn calls(&self) -> Vec<&CallNow> {
        let mut calls: Vec<_> = self.snapshot.calls.iter().collect();
        calls.sort_by(|a, b| by_next_cut(a, b));
        calls
    }

    /// Returns the upstreams, each with its holds below it.
    pub(super) fn upstream_rows(&self) -> Vec<UpstreamRow<'_>> {
        let rows = self.snapshot.upstreams.iter().flat_map(|upstream| {
            let holds = upstream.holds.iter().map(UpstreamRow::Hold);
            std::iter::once(UpstreamRow::Upstream(upstream)).chain(holds)
        });
        rows.collect()
    }

    /// Returns the calls that did not complete, the latest first.
    pub(super) fn failures(&self) -> Vec<&EndedCall> {
        let recent = self.snapshot.recent.iter();
        recent.filter(|call| call.code.is_some()).collect()
    }

    /// Returns where in the list at hand the chosen row stands.
    pub(super) fn position(&self) -> Option<usize> {
        let ids = self.ids();
        let chosen = self.chosen[self.tab as usize].as_ref();
        let found = chosen.and_then(|chosen| ids.iter().position(|id| id == chosen));
        // What was chosen has gone, or nothing ever was.
        found.or_else(|| (!ids.is_empty()).then_some(0))
    }

    fn handle_key_of_details(&mut self, key: KeyCode) -> Option<Wish> {
        let details = self.details.as_mut()?;
        let page = PAGE.unsigned_abs();
        match key {
            KeyCode::Down | KeyCode::Char('j') => details.scroll = details.scroll.saturating_add(1),
            KeyCode::Up | KeyCode::Char('k') => details.scroll = details.scroll.saturating_sub(1),
            KeyCode::PageDown => details.scroll = details.scroll.saturating_add(page),
            KeyCode::PageUp => details.scroll = details.scroll.saturating_sub(page),
            KeyCode::Home | KeyCode::Char('g') => details.scroll = 0,
            KeyCode::Esc | KeyCode::Enter | KeyCode::Backspace => {
                self.details = None;
                return Some(Wish::Show { call: None });
            }
            _ => {}
        }
        None
    }

    /// Chooses the row that stands so many below the chosen one, or the last or first there is.
    fn choose_by(&mut self, rows: isize) {
        let ids = self.ids();
        let Some(at) = self.position() else {
            return;
        };
        let to = at.saturating_add_signed(rows).min(ids.len() - 1);
        self.chosen[self.tab as usize] = ids.into_iter().nth(to);
    }

    /// Returns by what the rows of the list at hand are known.
    fn ids(&self) -> Vec<String> {
        match self.tab {
            Tab::Calls => self.calls().iter().map(|call| call.id.clone()).collect(),
            Tab::Upstreams => {
                let rows = self.upstream_rows();
                rows.iter().map(UpstreamRow::id).collect()
            }
            Tab::Failures => self.failures().iter().map(|call| call.id.clone()).collect(),
        }
    }

    /// Returns the call that is looked at, or else the chosen one.
    fn call(&self) -> Option<String> {
        if let Some(details) = &self.details {
            return Some(details.call.clone());
        }
        match self.tab {
            Tab::Calls | Tab::Failures => self.ids().into_iter().nth(self.position()?),
            Tab::Upstreams => None,
        }
    }

    /// Returns the chosen hold, or the first of the chosen upstream.
    fn hold(&self) -> Option<Question> {
        if self.tab != Tab::Upstreams || self.details.is_some() {
            return None;
        }
        let rows = self.upstream_rows();
        let hold = match rows.get(self.position()?)? {
            UpstreamRow::Hold(hold) => hold,
            UpstreamRow::Upstream(upstream) => upstream.holds.first()?,
        };
        let owner = self.snapshot.upstreams.iter().find(|upstream| {
            let mut holds = upstream.holds.iter();
            holds.any(|other| other.id == hold.id)
        })?;
        let mut what = plain(&owner.name);
        if let Some(model) = &hold.model {
            what = format!("{what}, {}", plain(model));
        }
        Some(Question::Release {
            hold: hold.id.clone(),
            what,
        })
    }
}

impl Details {
    fn of(call: String) -> Self {
        Self {
            call,
            timeline: None,
            scroll: 0,
        }
    }
}

impl Tab {
    pub(super) const ALL: [Self; 3] = [Self::Calls, Self::Upstreams, Self::Failures];

    fn next(self, by: usize) -> Self {
        Self::ALL[(self as usize + by) % Self::ALL.len()]
    }
}

impl Question {
    fn wish(self) -> Wish {
        match self {
            Self::Cancel { call } => Wish::Cancel { call },
            Self::Release { hold, .. } => Wish::Release { hold },
        }
    }
}

impl UpstreamRow<'_> {
    fn id(&self) -> String {
        match self {
            Self::Upstream(upstream) => format!("upstream {}", upstream.name),
            Self::Hold(hold) => format!("hold {}", hold.id),
        }
    }
}

/// Puts the call that is cut next first, and those that nothing cuts last, the oldest first.
fn by_next_cut(a: &CallNow, b: &CallNow) -> Ordering {
    let due = |call: &CallNow| call.next_bound.map_or(u64::MAX, |next| next.in_ms);
    let by_due = due(a).cmp(&due(b));
    by_due.then(b.elapsed_ms.cmp(&a.elapsed_ms))
}

/// Rows of a page, as far as keys are concerned.
const PAGE: i16 = 10;
