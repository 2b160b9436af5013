//! The rows, each with its source. The first that matches is taken.

use std::time::Duration;

use super::{CatalogBound, CatalogRow, Hosts};
use crate::{BoundName, Limit};

/// Every row of the shipped catalog.
pub const ROWS: &[CatalogRow] = &[
    CatalogRow {
        name: "openai",
        hosts: Hosts::Named(&["api.openai.com", "*.api.openai.com"]),
        bounds: &[
            // Reasoning is hidden on chat, so a working call and a dead one look alike for long.
            after(BoundName::RawSilence, LONGEST, LONGEST_SOURCE),
            off(BoundName::Flat, DARK),
        ],
        shows_work: Some(false),
        source: "recorded streams: no reasoning text and no heartbeat on chat completions",
        ..PLAIN
    },
    CatalogRow {
        name: "azure",
        hosts: Hosts::Named(&[
            "*.openai.azure.com",
            "*.cognitiveservices.azure.com",
            "*.services.ai.azure.com",
        ]),
        bounds: &[
            after(BoundName::RawSilence, LONGEST, LONGEST_SOURCE),
            off(BoundName::Flat, DARK),
        ],
        shows_work: Some(false),
        source: "33 recorded streams: the models of openai, reasoning hidden; the first chunk has no \
                 choices and proves nothing; content is held back while the filter runs",
        ..PLAIN
    },
    CatalogRow {
        name: "anthropic",
        hosts: Hosts::Named(&["api.anthropic.com"]),
        wires: &["anthropic"],
        shows_work: Some(true),
        source: "461 of 505 recorded streams have a ping near the first content; logs of users show \
                 one about every 30 s of silence",
        ..PLAIN
    },
    CatalogRow {
        name: "bedrock",
        hosts: Hosts::Named(&[
            "bedrock-runtime.*.amazonaws.com",
            "bedrock-runtime-fips.*.amazonaws.com",
        ]),
        bounds: &[
            // A block that fills in the dark has no pings to bridge it: with a shorter limit than
            // the allowance of the phase bounds this one would cut it first.
            after(
                BoundName::RawSilence,
                LONGEST,
                "no ping in 112 recorded streams, so bytes prove no more than events do",
            ),
            off(BoundName::Flat, SAME_CLOCK),
        ],
        shows_work: Some(true),
        source: "recorded streams open with messageStart and show thinking as it comes",
        ..PLAIN
    },
    CatalogRow {
        name: "gemini",
        hosts: Hosts::Named(&[
            "generativelanguage.googleapis.com",
            "aiplatform.googleapis.com",
            "*-aiplatform.googleapis.com",
        ]),
        bounds: &[
            after(
                BoundName::RawSilence,
                LONGEST,
                "no heartbeat in 306 recorded streams, and thoughts show only where asked for",
            ),
            off(BoundName::Flat, SAME_CLOCK),
        ],
        shows_work: Some(false),
        source: "recorded streams: no end marker, no heartbeat, the first event has content",
        ..PLAIN
    },
    CatalogRow {
        name: "deepseek",
        hosts: Hosts::Named(&["api.deepseek.com", "*.deepseek.com"]),
        bounds: &[after(
            BoundName::WholeCall,
            600 + LONGEST,
            "the provider's documents: a request waits up to 10 min for inference to begin; then \
             the longest silence measured",
        )],
        shows_work: Some(false),
        source: "the provider's documents: comments, or blank lines before JSON, while it waits",
        ..PLAIN
    },
    CatalogRow {
        name: "openrouter",
        hosts: Hosts::Named(&["openrouter.ai", "*.openrouter.ai"]),
        shows_work: Some(false),
        source: "152 recorded streams: up to 30 comments before the first data; the provider behind \
                 may think in the dark",
        ..PLAIN
    },
    CatalogRow {
        name: "xai",
        hosts: Hosts::Named(&["api.x.ai", "*.api.x.ai"]),
        shows_work: Some(false),
        source: "a recorded stream: comments before the first event, for minutes while it queues",
        ..PLAIN
    },
    CatalogRow {
        name: "private",
        hosts: Hosts::Private,
        bounds: &[
            after(BoundName::Headers, 600, LOADING),
            after(BoundName::RawSilence, 600, LOADING),
        ],
        shows_work: Some(false),
        phase_defaults: false,
        source: "local servers send nothing while a model loads and a prompt is read",
        ..PLAIN
    },
];

/// A row about nothing that changes nothing.
const PLAIN: CatalogRow = CatalogRow {
    name: "",
    hosts: Hosts::Named(&[]),
    models: &[],
    wires: &[],
    bounds: &[],
    shows_work: None,
    phase_defaults: true,
    source: "",
};

const fn after(name: BoundName, seconds: u64, source: &'static str) -> CatalogBound {
    CatalogBound {
        name,
        limit: Limit::After(Duration::from_secs(seconds)),
        source,
    }
}

const fn off(name: BoundName, source: &'static str) -> CatalogBound {
    CatalogBound {
        name,
        limit: Limit::Off,
        source,
    }
}

/// The longest silence measured in a call that completed, in seconds.
const LONGEST: u64 = 1_862;
const LONGEST_SOURCE: &str = "the longest silence measured in a call that completed";
const LOADING: &str = "ollama and llama.cpp: the first byte can take minutes, without a heartbeat";
const DARK: &str = "no event comes while a model thinks, so the event clock proves nothing";
const SAME_CLOCK: &str = "without heartbeats it would measure what raw_silence measures";
