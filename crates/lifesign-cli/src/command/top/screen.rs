//! The whole terminal: keys and news in, a drawing out.

use std::io;
use std::thread;
use std::time::Duration;

use anyhow::Context as _;
use crossterm::event::{self, Event, KeyEventKind};
use lifesign_gateway::live::{Snapshot, Timeline};
use ratatui::DefaultTerminal;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::{MissedTickBehavior, interval};

use super::Shown;
use super::app::{App, Wish};
use super::gateway::{Gateway, Trouble};
use super::view::{Theme, draw};
use super::words::short_id;
use crate::interrupts::Interrupts;
use crate::output::plain;

/// Shows a gateway until somebody wants to go. The terminal is then as it was, also after a panic.
pub(super) async fn run(gateway: Gateway, url: &str) -> Result<(), Shown> {
    // Whoever is not there, or refuses, is told of on a plain line.
    let first = gateway.snapshot().await?;
    let interrupts = Interrupts::listen().context("signals cannot be received")?;
    let app = App::new(plain(url), first);
    let mut terminal = ratatui::try_init().context("the terminal cannot be taken")?;
    let shown = show(&mut terminal, app, gateway, interrupts).await;
    ratatui::restore();
    Ok(shown.context("the terminal cannot be written")?)
}

/// What is new.
enum News {
    Snapshot(Box<Snapshot>),
    Timeline(Box<Timeline>),
    Lost(String),
    Told(String),
}

async fn show(
    terminal: &mut DefaultTerminal,
    mut app: App,
    gateway: Gateway,
    mut interrupts: Interrupts,
) -> io::Result<()> {
    let theme = Theme::of_environment();
    let mut keys = keys()?;
    let (wishes, wished) = channel(ROOM);
    let (tell, mut news) = channel(ROOM);
    let following = tokio::spawn(follow(gateway, wished, tell));
    loop {
        terminal.draw(|frame| draw(frame, &app, theme))?;
        let wish = tokio::select! {
            () = interrupts.next() => Some(Wish::Quit),
            event = keys.recv() => match event {
                Some(Event::Key(key)) if key.kind != KeyEventKind::Release => app.handle_key(key),
                // Whatever else it is, such as a new size: it is drawn anew.
                Some(_) => None,
                // Nobody can press a key any more.
                None => Some(Wish::Quit),
            },
            news = news.recv() => {
                match news {
                    Some(News::Snapshot(snapshot)) => app.handle_snapshot(*snapshot),
                    Some(News::Timeline(timeline)) => app.handle_timeline(timeline),
                    Some(News::Lost(why)) => app.handle_loss(why),
                    Some(News::Told(text)) => app.note = Some(text),
                    None => return Ok(()),
                }
                None
            }
        };
        if wish == Some(Wish::Quit) {
            break;
        }
        if let Some(wish) = wish
            && wishes.try_send(wish).is_err()
        {
            app.note = Some("the gateway has not done the last things yet".to_owned());
        }
    }
    following.abort();
    Ok(())
}

/// Asks the gateway again and again, and for what is wished.
async fn follow(gateway: Gateway, mut wished: Receiver<Wish>, tell: Sender<News>) {
    let mut looked_at = None;
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks.tick().await;
    loop {
        let told = tokio::select! {
            _ = ticks.tick() => None,
            wish = wished.recv() => match wish {
                Some(Wish::Show { call }) => {
                    looked_at = call;
                    None
                }
                Some(wish) => carry_out(&gateway, wish).await,
                None => return,
            },
        };
        let mut all = Vec::from_iter(told.map(News::Told));
        all.push(match gateway.snapshot().await {
            Ok(snapshot) => News::Snapshot(Box::new(snapshot)),
            Err(trouble) => News::Lost(trouble.to_string()),
        });
        if let Some(call) = &looked_at {
            match gateway.timeline(call).await {
                Ok(timeline) => all.push(News::Timeline(Box::new(timeline))),
                Err(trouble @ Trouble::Refused { .. }) => {
                    all.push(News::Told(trouble.to_string()));
                    looked_at = None;
                }
                // The snapshot has told it already.
                Err(_) => {}
            }
        }
        for news in all {
            if tell.send(news).await.is_err() {
                return;
            }
        }
    }
}

/// Does what is wished, and says what came of it.
async fn carry_out(gateway: &Gateway, wish: Wish) -> Option<String> {
    let (done, what) = match &wish {
        Wish::Cancel { call } => (
            gateway.cancel(call).await,
            format!("call {} cancelled", short_id(call)),
        ),
        Wish::Release { hold } => (gateway.release(hold).await, "hold released".to_owned()),
        Wish::Quit | Wish::Show { .. } => return None,
    };
    Some(match done {
        Ok(()) => what,
        Err(trouble) => trouble.to_string(),
    })
}

/// Returns what is pressed and what else happens to the terminal.
fn keys() -> io::Result<Receiver<Event>> {
    let (pressed, keys) = channel(ROOM);
    thread::Builder::new()
        .name("lifesign-keys".to_owned())
        .spawn(move || {
            while let Ok(event) = event::read() {
                if pressed.blocking_send(event).is_err() {
                    return;
                }
            }
        })?;
    Ok(keys)
}

/// How often the gateway is asked; it takes no new snapshot sooner.
const EVERY: Duration = Duration::from_secs(1);

/// What may wait: nobody presses so many keys at once.
const ROOM: usize = 64;
