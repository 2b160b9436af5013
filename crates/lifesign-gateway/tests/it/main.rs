//! Behaviour of the gateway seen from outside: raw bytes in, raw bytes out, and what was recorded.

// The attribute tells the lints that helpers are tests too.
#[cfg(test)]
mod agents;
#[cfg(test)]
mod cases;
#[cfg(test)]
mod collector;
#[cfg(test)]
mod ending;
#[cfg(test)]
mod failover;
#[cfg(test)]
mod harness;
#[cfg(test)]
mod holds;
#[cfg(test)]
mod journal;
#[cfg(test)]
mod lines;
#[cfg(test)]
mod live;
#[cfg(test)]
mod log;
#[cfg(test)]
mod metrics;
#[cfg(test)]
mod nested;
#[cfg(test)]
mod pace;
#[cfg(test)]
mod page;
#[cfg(test)]
mod passing;
#[cfg(test)]
mod play;
#[cfg(test)]
mod records;
#[cfg(test)]
mod relay;
#[cfg(test)]
mod traces;
#[cfg(test)]
mod whole;
