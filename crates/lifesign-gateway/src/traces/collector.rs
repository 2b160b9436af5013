//! A collector, as spans are sent to it: OTLP over gRPC or HTTP.
//!
//! Which answers are worth another try is said by the specification of OTLP
//! (<https://opentelemetry.io/docs/specs/otlp/>, "OTLP/gRPC Throttling" and "OTLP/HTTP Response").

use std::pin::pin;
use std::time::Duration;

use bytes::{BufMut as _, Bytes, BytesMut};
use futures_util::future::{Either, select};
use http::header::{CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER, TE, USER_AGENT};
use http::{Method, Request, StatusCode, Uri};
use lifesign::clock;
use lifesign::transport::{
    ConnectProgress, Connection, Endpoint, RootsError, Step, Transport, TransportConfig,
};
use prost::Message as _;
use tokio::time::sleep_until;

use self::grpc::GrpcStatus;
use super::exporter::{Deliver, Delivery};
use super::otlp::ExportResponse;
use super::settings::{OtlpProtocol, TraceSettings};
use crate::chain::Chain;

mod grpc;

/// The way to a collector.
pub(super) struct Collector {
    transport: Transport,
    endpoint: Endpoint,
    protocol: OtlpProtocol,
    request: Request<()>,
    /// Whether no open connection is trusted: the last request failed.
    fresh: bool,
    /// How long a request may take.
    limit: Duration,
}

impl Collector {
    pub(super) fn new(settings: &TraceSettings) -> Result<Self, RootsError> {
        let TraceSettings {
            url,
            protocol,
            headers,
            ..
        } = settings;
        let mut request = Request::new(());
        *request.method_mut() = Method::POST;
        *request.uri_mut() = Uri::from(url.path(*protocol));
        let head = request.headers_mut();
        head.insert(USER_AGENT, HeaderValue::from_static(AGENT));
        match protocol {
            OtlpProtocol::Grpc => {
                head.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
                head.insert(TE, HeaderValue::from_static("trailers"));
            }
            OtlpProtocol::HttpProtobuf => {
                let kind = HeaderValue::from_static("application/x-protobuf");
                head.insert(CONTENT_TYPE, kind);
            }
        }
        head.extend(headers.iter().cloned());
        Ok(Self {
            transport: Transport::new(TransportConfig::default())?,
            endpoint: url.endpoint(*protocol),
            protocol: *protocol,
            request,
            fresh: false,
            limit: LIMIT,
        })
    }

    /// Asks and reads what is answered, once more where an open connection turns out to be none.
    async fn ask(&self, body: Bytes) -> Result<Answer, String> {
        let connection = self.open(self.fresh).await?;
        let was_open = connection.is_reused();
        match self.exchange(connection, body.clone()).await {
            Err(_) if was_open => self.exchange(self.open(true).await?, body).await,
            answered => answered,
        }
    }

    async fn open(&self, fresh: bool) -> Result<Connection, String> {
        let progress = ConnectProgress::new();
        let opened = self.transport.open(&self.endpoint, fresh, &progress);
        let connection = opened.await.map_err(|error| Chain(&error).to_string())?;
        if self.protocol == OtlpProtocol::Grpc && !connection.is_http2() {
            return Err("the collector does not speak HTTP/2, which gRPC needs".to_owned());
        }
        Ok(connection)
    }

    async fn exchange(&self, connection: Connection, body: Bytes) -> Result<Answer, String> {
        let mut exchange = connection.send(self.request.clone().map(|()| body));
        let mut answer = Answer::default();
        loop {
            let step = exchange.step().await;
            match step.map_err(|error| Chain(&error).to_string())? {
                Step::Wrote | Step::Sent | Step::Raw => {}
                Step::Head(head) => {
                    answer.status = head.status;
                    answer.headers = head.headers;
                }
                Step::Chunk(chunk) => {
                    let room = LONGEST_ANSWER.saturating_sub(answer.body.len());
                    answer
                        .body
                        .extend_from_slice(&chunk[..room.min(chunk.len())]);
                }
                Step::End => break,
            }
        }
        answer.trailers = exchange.trailers().cloned().unwrap_or_default();
        exchange.finish();
        Ok(answer)
    }
}

impl Deliver for Collector {
    async fn deliver(&mut self, request: Bytes) -> Delivery {
        let body = match self.protocol {
            OtlpProtocol::Grpc => framed(&request),
            OtlpProtocol::HttpProtobuf => request,
        };
        let (limit, late) = (self.limit, clock::now() + self.limit);
        let answered = {
            let asking = pin!(self.ask(body));
            match select(asking, pin!(sleep_until(late))).await {
                Either::Left((answered, _)) => answered,
                Either::Right(_) => Err(format!("no answer within {limit:?}")),
            }
        };
        self.fresh = answered.is_err();
        match answered {
            Ok(answer) => answer.delivery(self.protocol),
            Err(error) => Delivery::Failed {
                error,
                retry_after: None,
            },
        }
    }
}

/// What a collector answered.
#[derive(Debug, Default)]
struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: Vec<u8>,
    trailers: HeaderMap,
}

impl Answer {
    fn delivery(&self, protocol: OtlpProtocol) -> Delivery {
        match (self.status, protocol) {
            (StatusCode::OK, OtlpProtocol::Grpc) => self.grpc(),
            (status, OtlpProtocol::HttpProtobuf) if status.is_success() => taken(&self.body),
            (
                StatusCode::TOO_MANY_REQUESTS
                | StatusCode::BAD_GATEWAY
                | StatusCode::SERVICE_UNAVAILABLE
                | StatusCode::GATEWAY_TIMEOUT,
                _,
            ) => Delivery::Failed {
                error: format!("the collector answers {}", self.status),
                retry_after: self.retry_after(),
            },
            // What the body says may repeat what was sent.
            (status, _) => Delivery::Refused(format!("the collector answers {status}")),
        }
    }

    fn grpc(&self) -> Delivery {
        // Where there is no body, the trailers are among the headers.
        let status = GrpcStatus::of(&self.trailers).or_else(|| GrpcStatus::of(&self.headers));
        let Some(status) = status else {
            return Delivery::Failed {
                error: "the collector answers without a gRPC status".to_owned(),
                retry_after: None,
            };
        };
        if status.is_ok() {
            return taken(self.body.get(PREFIX..).unwrap_or_default());
        }
        let error = status.to_string();
        if status.may_pass() {
            let retry_after = status.wait();
            return Delivery::Failed { error, retry_after };
        }
        Delivery::Refused(error)
    }

    /// Returns the wait that is asked for in seconds; dates are for caches.
    fn retry_after(&self) -> Option<Duration> {
        let text = self.headers.get(RETRY_AFTER)?.to_str().ok()?;
        text.trim().parse().ok().map(Duration::from_secs)
    }
}

/// Returns what became of spans whose request was taken, which the answer may restrict.
fn taken(answer: &[u8]) -> Delivery {
    // One that cannot be read restricts nothing.
    let answer = ExportResponse::decode(answer).unwrap_or_default();
    let partial = answer.partial_success.unwrap_or_default();
    let refused = u64::try_from(partial.rejected_spans).unwrap_or_default();
    Delivery::Taken {
        refused,
        message: format!(
            "the collector refuses some spans: {}",
            one_line(&partial.error_message)
        ),
    }
}

/// Returns a gRPC message: a byte that says it is not compressed, its length, and itself.
fn framed(message: &[u8]) -> Bytes {
    let mut framed = BytesMut::with_capacity(PREFIX + message.len());
    framed.put_u8(0);
    // A batch is far from what this could not hold.
    framed.put_u32(u32::try_from(message.len()).unwrap_or(u32::MAX));
    framed.put_slice(message);
    framed.freeze()
}

/// Returns what a collector says on one line, as far as it is worth reading.
fn one_line(text: &str) -> String {
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let end = words.floor_char_boundary(LONGEST_WORDS);
    words.get(..end).unwrap_or_default().to_owned()
}

const AGENT: &str = concat!("lifesign/", env!("CARGO_PKG_VERSION"));
/// How long a request may take: the default of OpenTelemetry's exporters.
const LIMIT: Duration = Duration::from_secs(10);
/// Before a gRPC message.
const PREFIX: usize = 5;
/// Of an answer, in bytes, and of what it says.
const LONGEST_ANSWER: usize = 64 << 10;
const LONGEST_WORDS: usize = 200;

#[cfg(test)]
mod tests;
