//! The tools that a server lists, as a model sees them.

use std::sync::{Arc, PoisonError, RwLock};

use rmcp::model::{PaginatedRequestParams, Tool};
use rmcp::{Peer, RoleClient};
use serde_json::{Map, Value};
use tokio::sync::Mutex;

use super::config::McpServerConfig;
use crate::tools::ToolSpec;

/// A tool as the model knows it, and what its server calls it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Listed {
    pub(super) spec: ToolSpec,
    pub(super) name: String,
}

/// What a server offers now.
#[derive(Debug)]
pub(super) struct Listing {
    config: Arc<McpServerConfig>,
    tools: RwLock<Arc<[Listed]>>,
    /// Held while the server is asked, so that a later answer is never replaced by an earlier one.
    asking: Mutex<()>,
}

impl Listing {
    pub(super) fn new(config: Arc<McpServerConfig>) -> Self {
        Self {
            config,
            tools: RwLock::new(Arc::new([])),
            asking: Mutex::new(()),
        }
    }

    /// Returns the tools as they were last listed.
    pub(super) fn tools(&self) -> Arc<[Listed]> {
        Arc::clone(&self.tools.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Asks the server for its tools, page by page. Where that fails the last ones stay.
    pub(super) async fn refresh(&self, server: &Peer<RoleClient>) -> Result<(), String> {
        let _asking = self.asking.lock().await;
        let chosen = self.chosen(self.ask(server).await?)?;
        *self.tools.write().unwrap_or_else(PoisonError::into_inner) = chosen.into();
        Ok(())
    }

    async fn ask(&self, server: &Peer<RoleClient>) -> Result<Vec<Listed>, String> {
        let mut listed = Vec::new();
        let info = server.peer_info();
        if info.is_some_and(|info| info.capabilities.tools.is_none()) {
            return Ok(listed);
        }
        let mut cursor = None;
        for _ in 0..MOST_PAGES {
            let wanted = PaginatedRequestParams::default().with_cursor(cursor);
            let page = server
                .list_tools(Some(wanted))
                .await
                .map_err(|error| format!("cannot list its tools: {error}"))?;
            listed.extend(page.tools.iter().map(|tool| self.spec(tool)));
            cursor = page.next_cursor;
            if cursor.is_none() {
                return Ok(listed);
            }
        }
        Err(format!("lists its tools on more than {MOST_PAGES} pages"))
    }

    /// Returns those that the file asks for.
    fn chosen(&self, listed: Vec<Listed>) -> Result<Vec<Listed>, String> {
        let Some(wanted) = &self.config.tools else {
            return check(listed);
        };
        for (place, name) in wanted.iter().enumerate() {
            if !listed.iter().any(|tool| tool.name == *name) {
                let names: Vec<_> = listed.iter().map(|tool| tool.name.as_str()).collect();
                return Err(format!(
                    "has no tool {name:?}, which mcpServers.{}.tools[{place}] asks for; it has {}",
                    self.config.name,
                    names.join(", "),
                ));
            }
        }
        let is_wanted = |tool: &Listed| wanted.contains(&tool.name);
        check(listed.into_iter().filter(is_wanted).collect())
    }

    fn spec(&self, tool: &Tool) -> Listed {
        let description = tool.description.as_deref().or(tool.title.as_deref());
        let annotations = tool.annotations.as_ref();
        Listed {
            spec: ToolSpec {
                name: name_for_models(&self.config.prefix, &tool.name),
                description: description.map(str::to_owned),
                parameters: parameters(tool.input_schema.as_ref().clone()),
                timeout: self.config.timeout,
                // What changes nothing gets in nobody's way.
                is_parallel: annotations.is_some_and(|hints| hints.read_only_hint == Some(true)),
            },
            name: tool.name.clone().into_owned(),
        }
    }
}

/// Returns a name that every provider takes: up to 64 letters, digits, `_` and `-`.
fn name_for_models(prefix: &str, name: &str) -> String {
    let clean = |c| if super::is_name_char(c) { c } else { '_' };
    let all = prefix.chars().chain(name.chars().map(clean));
    let named: String = all.take(LONGEST_NAME).collect();
    if named.is_empty() {
        NAMELESS.to_owned()
    } else {
        named
    }
}

/// Returns a schema that every provider takes: arguments are an object, also where it does not say so.
fn parameters(mut schema: Map<String, Value>) -> Value {
    schema
        .entry("type")
        .or_insert_with(|| Value::from("object"));
    Value::Object(schema)
}

/// Refuses a tool of which providers refuse every call, because its arguments are no object.
fn check(listed: Vec<Listed>) -> Result<Vec<Listed>, String> {
    for tool in &listed {
        let kind = &tool.spec.parameters["type"];
        if kind != "object" {
            return Err(format!(
                "has a tool {:?} whose inputSchema is of the type {kind}; a model gives an object, \
                 and no provider takes a tool that wants anything else (`tools` leaves it out)",
                tool.name,
            ));
        }
    }
    Ok(listed)
}

/// A server that has more tools than that is not listing tools.
const MOST_PAGES: usize = 100;

const NAMELESS: &str = "nameless";

/// What `OpenAI` takes; others take more.
const LONGEST_NAME: usize = 64;

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_name_is_one_that_every_provider_takes() {
        assert_eq!(name_for_models("fs_", "read-file"), "fs_read-file");
        assert_eq!(name_for_models("", "a.b/c d"), "a_b_c_d");
        assert_eq!(name_for_models("p", &"x".repeat(80)).len(), 64);
        assert_eq!(name_for_models("", ""), "nameless");
    }

    /// One tool that a provider does not take has it refuse every call.
    #[test]
    fn a_schema_is_one_of_an_object_or_its_tool_is_refused_by_name() {
        let listed = |schema: Value| {
            let Value::Object(schema) = schema else {
                unreachable!()
            };
            let spec = ToolSpec {
                name: "look".to_owned(),
                description: None,
                parameters: parameters(schema),
                timeout: None,
                is_parallel: false,
            };
            check(vec![Listed {
                spec,
                name: "look".to_owned(),
            }])
        };

        let unsaid = listed(json!({"properties": {}})).unwrap();
        assert_eq!(
            unsaid[0].spec.parameters,
            json!({"properties": {}, "type": "object"})
        );
        assert!(listed(json!({"type": "object"})).is_ok());
        let refused = listed(json!({"type": "string"})).unwrap_err();
        assert!(
            refused.starts_with("has a tool \"look\" whose inputSchema is of the type \"string\""),
            "{refused}"
        );
    }
}
