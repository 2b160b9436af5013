//! What it costs that everything is written down, traced and looked at.

use tokio::task::JoinHandle;

use crate::Result;
use crate::caller::Way;
use crate::measure::{Scale, frame_cost};
use crate::proxies::{Kind, Proxy};
use crate::table::Table;
use crate::upstream::Upstream;

/// The figure's name.
pub(crate) const COST: &str = "time per frame with all on, % of all off";

/// Compares two gateways, turn by turn: one that nobody watches, and one with a journal, a collector
/// of traces and somebody who has the page open.
pub(crate) async fn measure(table: &mut Table, upstream: &Upstream, scale: &Scale) -> Result<()> {
    let plain = Proxy::start(Kind::Lifesign, upstream.address, None, "")?;
    let directory = tempfile::tempdir()?;
    let settings = format!(
        "\n[journal]\npath = \"{}\"\n\n[telemetry]\notlp_endpoint = \"http://{}\"",
        directory.path().join("journal.db").display(),
        upstream.address,
    );
    let watched = Proxy::start(Kind::Lifesign, upstream.address, None, &settings)?;
    let watching = watch(&watched.way).await?;
    let mut ratios = Vec::new();
    for _ in 0..scale.watched {
        let costs = (
            frame_cost(&plain, scale).await?,
            frame_cost(&watched, scale).await?,
        );
        let (Some(off), Some(on)) = costs else {
            return Err("the gateway does not run".into());
        };
        ratios.push(on / off);
    }
    if watching.is_finished() {
        return Err("whoever watched was sent away".into());
    }
    watching.abort();
    ratios.sort_unstable_by(f64::total_cmp);
    table.add(COST, Kind::Lifesign, ratios[ratios.len() / 2] * 100.0);
    Ok(())
}

/// Opens what the page listens to, and reads on.
async fn watch(way: &Way) -> Result<JoinHandle<()>> {
    let mut caller = way.open().await?;
    caller.get("/lifesign/live/events").await?;
    caller.head().await?;
    Ok(tokio::spawn(async move {
        while let Ok(Some(_)) = caller.piece().await {}
    }))
}
