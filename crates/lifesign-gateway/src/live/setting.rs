//! Whose setting a limit is, and how it is raised.

use lifesign_core::BoundName;

/// Returns whose setting the limit of `bound` is that came from `origin`, and how it is raised.
///
/// `origin` is what [`Origin`](lifesign_core::Origin) prints.
pub(crate) fn remedy(bound: BoundName, origin: &str, upstream: Option<&str>) -> String {
    let (setting, key) = (bound.setting(), bound.name());
    let place = match upstream {
        Some(upstream) => format!("[upstream.bounds] of {upstream}, or in [bounds] for all"),
        None => "[bounds]".to_owned(),
    };
    match origin {
        "default" => format!(
            "the default, which nobody has set: set {key} in {place}; or for one call with the \
             header x-lifesign-set: {setting}=..."
        ),
        "catalog" => format!(
            "the shipped value for this provider: set {key} in {place}, which goes before it"
        ),
        "profile" => format!(
            "set by the profile in force: set {key} in {place}, which goes before it, or choose \
             another profile"
        ),
        "env" => format!(
            "set by the environment: raise {} and restart the gateway",
            variable(bound)
        ),
        "call" if bound == BoundName::WallClock => {
            "the caller's own limit, in x-lifesign-wall-clock or x-lifesign-set: only the caller \
             can allow more"
                .to_owned()
        }
        "call" => format!(
            "set by the caller, or by --set where the gateway was started: raise {setting} there"
        ),
        "learned" => format!(
            "six times the longest pause between this stream's heartbeats: a value for {key} in \
             {place} goes before it"
        ),
        file => format!("set in {file}: raise {key} there"),
    }
}

/// Returns the variable that sets a bound.
fn variable(bound: BoundName) -> String {
    format!("LIFESIGN_BOUNDS__{}", bound.name().to_ascii_uppercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whose_setting_it_is_and_where_it_is_raised_is_said() {
        let of = |origin| remedy(BoundName::RawSilence, origin, Some("acme"));

        assert_eq!(
            of("gateway.toml:12"),
            "set in gateway.toml:12: raise raw_silence there"
        );
        assert_eq!(
            of("env"),
            "set by the environment: raise LIFESIGN_BOUNDS__RAW_SILENCE and restart the gateway"
        );
        assert!(of("default").contains("set raw_silence in [upstream.bounds] of acme"));
        assert!(of("default").contains("x-lifesign-set: bounds.raw_silence=..."));
        assert!(of("call").contains("bounds.raw_silence"));
        assert!(remedy(BoundName::WallClock, "call", None).contains("only the caller"));
        let origins = [
            "default", "catalog", "profile", "env", "call", "learned", "f:1",
        ];
        let said: std::collections::BTreeSet<_> = origins.map(of).into();
        assert_eq!(said.len(), origins.len());
    }
}
