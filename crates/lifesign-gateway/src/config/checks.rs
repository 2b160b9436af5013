//! What is fine setting by setting and not in sum: refused before anything starts.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use lifesign_core::duration::human;
use lifesign_core::{
    CallShape, Conflict, Limit, Origin, SettingError, Value, WireDefaults, check, unknown_setting,
};

use super::beats::Beats;
use super::route::Route;
use super::serve::Listen;
use super::upstream::{Auth, GatewayUpstream};
use super::{GatewayConfig, GatewayTables};

impl GatewayConfig {
    /// Refuses an address that others can reach where that would be careless.
    ///
    /// Addresses of `serve.listen` have been looked at; this is for sockets that somebody else
    /// opened.
    ///
    /// # Errors
    ///
    /// Returns an error if callers' keys, the admin interface's key or TLS is missing.
    pub fn check_address(&self, address: SocketAddr) -> Result<(), SettingError> {
        let has_tls = self.serve.tls_cert.value.is_some();
        let error = if Listen::Tcp(address).is_local() {
            return Ok(());
        } else if self.keys.is_empty() {
            SettingError::new(
                "serve.listen",
                "is beyond this machine, and there is no [[key]]",
            )
            .with_accepted("a loopback address or a unix socket, or a [[key]] for each caller")
        } else if self.serve.admin_key.value.is_none() {
            SettingError::new(
                "serve.listen",
                "is beyond this machine, and there is no serve.admin_key",
            )
            .with_accepted("a loopback address or a unix socket, or serve.admin_key")
        } else if !has_tls && !self.serve.allow_cleartext.value {
            SettingError::new(
                "serve.listen",
                "is beyond this machine, and keys would cross the network in the clear",
            )
            .with_accepted(
                "a loopback address or a unix socket, serve.tls_cert and serve.tls_key, or \
                 serve.allow_cleartext = true",
            )
        } else {
            return Ok(());
        };
        Err(error.with_value(&Value::Text(&address.to_string())))
    }

    /// Returns every setting that can never act, or not as it is meant.
    pub fn findings(&self) -> Vec<Conflict> {
        let mut found: Vec<Conflict> = Vec::new();
        let mut add = |conflict: Conflict| {
            if !found.contains(&conflict) {
                found.push(conflict);
            }
        };
        for upstream in &self.upstreams {
            let wire = upstream.wire().defaults();
            let shape = CallShape {
                streamed: true,
                max_tokens: None,
                wire,
            };
            check(&upstream.settings, &shape)
                .into_iter()
                .for_each(&mut add);
            let routes = self.routes.iter().filter(|route| {
                let mut names = route.upstreams.iter();
                names.any(|name| name == upstream.name())
            });
            for route in routes.map(Some).chain([None]) {
                for key in self.keys.iter().map(Some).chain([None]) {
                    let beats = self.beats(Some(upstream), route, key, None);
                    if let Some(conflict) = beats_too_far_apart(&beats, &wire) {
                        add(conflict);
                    }
                }
            }
        }
        found
    }

    pub(super) fn refuse(&self, tables: &GatewayTables) -> Result<(), SettingError> {
        self.refuse_upstreams(tables)?;
        for route in &self.routes {
            self.refuse_route(route)?;
        }
        self.refuse_keys()?;
        self.refuse_tls(tables)?;
        self.traces.refuse(tables)?;
        for listen in &self.serve.listen.value {
            if let Listen::Tcp(address) = listen {
                self.check_address(*address)
                    .map_err(|error| tables.placed(error, "serve.listen"))?;
            }
        }
        Ok(())
    }

    fn refuse_upstreams(&self, tables: &GatewayTables) -> Result<(), SettingError> {
        if self.upstreams.is_empty() {
            return Err(
                SettingError::new("upstream", "is missing: there is nobody to ask")
                    .with_accepted("[[upstream]] in the file, or --upstream NAME=URL"),
            );
        }
        for (at, upstream) in self.upstreams.iter().enumerate() {
            let problem = if upstream.auth == Auth::Own {
                continue;
            } else if !self.keys.is_empty() {
                "would hand the callers' keys of this gateway to the upstream"
            } else if upstream.client.api_key.is_some() {
                "leaves upstream.api_key without use"
            } else {
                continue;
            };
            let error = SettingError::new("upstream.auth", problem)
                .with_value(&Value::Text("pass"))
                .with_accepted("\"own\"");
            return Err(tables.placed(error, &format!("upstream.{at}.auth")));
        }
        Ok(())
    }

    fn refuse_route(&self, route: &Route) -> Result<(), SettingError> {
        let refuse = |problem: String| {
            SettingError::new("route.upstreams", problem).with_position(route.position.as_str())
        };
        let mut asked: Vec<&Arc<GatewayUpstream>> = Vec::new();
        for name in &route.upstreams {
            let Some(upstream) = self.upstream(name) else {
                let names = || self.upstreams.iter().map(|upstream| upstream.name());
                let known: Vec<_> = names().map(|name| format!("`{name}`")).collect();
                let error = refuse("is the name of no upstream".to_owned())
                    .with_value(&Value::Text(name))
                    .with_accepted(known.join(", "));
                let hint = unknown_setting(name, names()).hint;
                return Err(SettingError { hint, ..error });
            };
            if asked.iter().any(|it| it.name() == name) {
                return Err(refuse(format!("names `{name}` twice")));
            }
            asked.push(upstream);
        }
        let Some(first) = asked.first() else {
            return Ok(());
        };
        let first_to_pass = first_to_pass(&asked);
        for other in &asked {
            if other.wire() != first.wire() {
                return Err(refuse(format!(
                    "mixes wires: `{}` speaks {} and `{}` {}",
                    first.name(),
                    first.wire(),
                    other.name(),
                    other.wire()
                ))
                .with_accepted("upstreams of one wire"));
            }
            if other.auth_origin == Origin::Default
                && let Some(meant) = first_to_pass
                && !may_share_credential(meant, other)
            {
                return Err(refuse(format!(
                    "would hand the caller's key for `{}` to `{}`, which is another host",
                    meant.name(),
                    other.name()
                ))
                .with_accepted("api_key for each, or auth = \"pass\" where that is meant"));
            }
        }
        Ok(())
    }

    fn refuse_keys(&self) -> Result<(), SettingError> {
        for (at, key) in self.keys.iter().enumerate() {
            let earlier = &self.keys[..at];
            if let Some(first) = earlier.iter().find(|it| it.name == key.name) {
                return Err(
                    SettingError::new("key.name", format!("is taken: {}", first.origin))
                        .with_value(&Value::Text(&key.name))
                        .with_position(key.name_position.as_str()),
                );
            }
            if let Some(first) = earlier.iter().find(|it| it.sha256 == key.sha256) {
                let problem = format!("is that of the key `{}` too: {}", first.name, first.origin);
                return Err(SettingError::new("key.sha256", problem)
                    .with_position(key.hash_position.as_str()));
            }
        }
        Ok(())
    }

    fn refuse_tls(&self, tables: &GatewayTables) -> Result<(), SettingError> {
        let (given, missing) = match (&self.serve.tls_cert.value, &self.serve.tls_key.value) {
            (Some(_), None) => ("serve.tls_cert", "serve.tls_key"),
            (None, Some(_)) => ("serve.tls_key", "serve.tls_cert"),
            (Some(_), Some(_)) | (None, None) => return Ok(()),
        };
        let error = SettingError::new(given, format!("is of no use without {missing}"));
        Err(tables.placed(error, given))
    }
}

/// Returns whom a caller's own key is meant for: the first of `asked` that it would go to.
pub(super) fn first_to_pass<'u>(asked: &[&'u Arc<GatewayUpstream>]) -> Option<&'u GatewayUpstream> {
    let mut asked = asked.iter().map(|upstream| &***upstream);
    asked.find(|upstream| upstream.auth == Auth::Pass)
}

/// Returns whether `other` may be asked where the caller's own key is meant for `meant`.
pub(super) fn may_share_credential(meant: &GatewayUpstream, other: &GatewayUpstream) -> bool {
    other.auth == Auth::Own || meant.client.base_url.host() == other.client.base_url.host()
}

/// Reports beats by which a reader cannot tell the gateway from a dead one.
///
/// The reader that is known is a lifesign client, which allows as much silence as the wire says.
fn beats_too_far_apart(beats: &Beats, wire: &WireDefaults) -> Option<Conflict> {
    let Limit::After(every) = beats.every.value else {
        return None;
    };
    let third: Duration = wire.raw_silence / 3;
    (every > third && beats.every.origin.is_by_hand()).then(|| Conflict {
        setting: "beats.every".to_owned(),
        origin: beats.every.origin.clone(),
        message: format!(
            "beats.every = {} is above {}, a third of the silence that a client allows on {} by \
             default",
            human(every),
            human(third),
            wire.name
        ),
    })
}
