//! Who a provider is by OpenTelemetry's conventions for generative AI, as they were on 2026-11-30.

use lifesign_core::{CatalogRow, Target};
use lifesign_wire::Wire;

/// Returns `gen_ai.provider.name` of an upstream that speaks a wire at a host.
pub fn provider_of(wire: Wire, host: &str) -> &'static str {
    let row = CatalogRow::of(&Target {
        wire: &wire.defaults(),
        host: Some(host),
        model: None,
    });
    provider(row.map(|row| row.name), wire.name())
}

/// Returns `gen_ai.provider.name` of a provider that the catalog knows, else of the dialect.
fn provider(catalog: Option<&str>, wire: &str) -> &'static str {
    match (catalog, wire) {
        (Some("azure"), _) => "azure.ai.openai",
        (Some("bedrock"), _) => "aws.bedrock",
        (Some("deepseek"), _) => "deepseek",
        (Some("gemini"), _) => "gcp.gemini",
        (Some("openrouter"), _) => "openrouter",
        (Some("xai"), _) => "x_ai",
        (_, "anthropic") => "anthropic",
        // A server of one's own that speaks OpenAI's dialect is told as OpenAI, as the conventions
        // say where nothing more is known.
        _ => "openai",
    }
}

#[cfg(test)]
mod tests {
    use lifesign_core::ROWS;

    use super::*;

    #[test]
    fn each_provider_of_the_catalog_has_a_name_of_its_own() {
        let named = ROWS.iter().filter(|row| row.name != "private");
        let mut names: Vec<_> = named
            .map(|row| {
                provider(
                    Some(row.name),
                    row.wires.first().copied().unwrap_or_default(),
                )
            })
            .collect();
        let count = names.len();

        names.sort_unstable();
        names.dedup();

        assert_eq!(names.len(), count, "{names:?}");
    }
}
