//! A collector in this process that receives OTLP with the official messages and gRPC service.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::service::TowerToHyperService;
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value};
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::{Event, SpanKind};
use prost::Message as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use crate::harness::{sleep, wait_until};

/// A collector that runs until it is dropped.
pub(crate) struct Collector {
    pub(crate) address: SocketAddr,
    inbox: Inbox,
    served: JoinHandle<()>,
}

/// How a collector is spoken to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Protocol {
    Grpc,
    Http,
}

/// What a collector does with a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Mood {
    #[default]
    Take,
    /// It never answers.
    Hang,
    /// It answers that this will never do.
    Refuse,
    /// It answers that this will not do now.
    Busy,
}

#[derive(Clone, Default)]
struct Inbox {
    requests: Arc<Mutex<Vec<ExportTraceServiceRequest>>>,
    headers: Arc<Mutex<Vec<HeaderMap>>>,
    mood: Arc<Mutex<Mood>>,
}

impl Protocol {
    pub(crate) const BOTH: [Self; 2] = [Self::Grpc, Self::Http];

    /// Returns the word for it in the settings.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Grpc => "grpc",
            Self::Http => "http/protobuf",
        }
    }
}

impl Collector {
    pub(crate) async fn start(protocol: Protocol) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let inbox = Inbox::default();
        let served = tokio::spawn({
            let inbox = inbox.clone();
            async move {
                loop {
                    let (socket, _) = listener.accept().await.unwrap();
                    let inbox = inbox.clone();
                    tokio::spawn(async move {
                        match protocol {
                            Protocol::Grpc => grpc(socket, inbox).await,
                            Protocol::Http => http1(socket, inbox).await,
                        }
                    });
                }
            }
        });
        Self {
            address,
            inbox,
            served,
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn set_mood(&self, mood: Mood) {
        *self.inbox.mood.lock().unwrap() = mood;
    }

    /// Returns how many requests came, whatever became of them.
    pub(crate) fn asked(&self) -> usize {
        self.inbox.headers.lock().unwrap().len()
    }

    /// Returns the headers of the first request.
    pub(crate) fn headers(&self) -> HeaderMap {
        self.inbox.headers.lock().unwrap()[0].clone()
    }

    pub(crate) fn requests(&self) -> Vec<ExportTraceServiceRequest> {
        self.inbox.requests.lock().unwrap().clone()
    }

    /// Returns every span that was taken.
    pub(crate) fn all(&self) -> Vec<Span> {
        let requests = self.requests().into_iter();
        let resources = requests.flat_map(|request| request.resource_spans);
        let scopes = resources.flat_map(|resource| resource.scope_spans);
        scopes.flat_map(|scope| scope.spans).collect()
    }

    /// Waits for so many spans, and returns them from the earliest.
    pub(crate) async fn spans(&self, count: usize) -> Vec<Span> {
        wait_until(|| self.all().len() >= count).await;
        let mut spans = self.all();
        assert_eq!(spans.len(), count, "{spans:#?}");
        // Of two that began together the one that ended later holds the other.
        spans.sort_by_key(|span| {
            let end = u64::MAX - span.end_time_unix_nano;
            (
                span.start_time_unix_nano,
                end,
                span.kind() != SpanKind::Server,
            )
        });
        spans
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.served.abort();
    }
}

impl Inbox {
    fn mood(&self) -> Mood {
        *self.mood.lock().unwrap()
    }

    async fn note(&self, headers: HeaderMap) {
        self.headers.lock().unwrap().push(headers);
        if self.mood() == Mood::Hang {
            sleep(Duration::from_hours(1)).await;
        }
    }

    fn take(&self, request: ExportTraceServiceRequest) {
        self.requests.lock().unwrap().push(request);
    }
}

async fn grpc(socket: TcpStream, inbox: Inbox) {
    let service = TowerToHyperService::new(TraceServiceServer::new(inbox));
    let served = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
    // Whoever asks may leave.
    let _left = served.serve_connection(TokioIo::new(socket), service).await;
}

#[tonic::async_trait]
impl TraceService for Inbox {
    async fn export(
        &self,
        request: tonic::Request<ExportTraceServiceRequest>,
    ) -> Result<tonic::Response<ExportTraceServiceResponse>, tonic::Status> {
        self.note(request.metadata().clone().into_headers()).await;
        match self.mood() {
            Mood::Refuse => Err(tonic::Status::invalid_argument("not like this")),
            Mood::Busy => Err(tonic::Status::unavailable("not now")),
            Mood::Take | Mood::Hang => {
                self.take(request.into_inner());
                Ok(tonic::Response::new(ExportTraceServiceResponse::default()))
            }
        }
    }
}

async fn http1(socket: TcpStream, inbox: Inbox) {
    let service = service_fn(|request| post(request, inbox.clone()));
    let served = hyper::server::conn::http1::Builder::new();
    let _left = served.serve_connection(TokioIo::new(socket), service).await;
}

async fn post(
    request: Request<Incoming>,
    inbox: Inbox,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (head, body) = request.into_parts();
    assert_eq!(
        (head.method.as_str(), head.uri.path()),
        ("POST", "/v1/traces")
    );
    assert_eq!(head.headers["content-type"], "application/x-protobuf");
    let body = body.collect().await.unwrap().to_bytes();
    inbox.note(head.headers).await;
    let status = match inbox.mood() {
        Mood::Refuse => StatusCode::BAD_REQUEST,
        Mood::Busy => StatusCode::SERVICE_UNAVAILABLE,
        Mood::Take | Mood::Hang => {
            inbox.take(ExportTraceServiceRequest::decode(body).unwrap());
            StatusCode::OK
        }
    };
    let answer = ExportTraceServiceResponse::default().encode_to_vec();
    let mut response = Response::new(Full::new(Bytes::from(answer)));
    *response.status_mut() = status;
    Ok(response)
}

/// Returns an attribute as text; `None` where there is none.
pub(crate) fn attribute(attributes: &[KeyValue], key: &str) -> Option<String> {
    let found = attributes.iter().find(|attribute| attribute.key == key)?;
    let value = found.value.as_ref().unwrap().value.as_ref().unwrap();
    Some(match value {
        any_value::Value::StringValue(text) => text.clone(),
        any_value::Value::BoolValue(flag) => flag.to_string(),
        any_value::Value::IntValue(integer) => integer.to_string(),
        other => format!("{other:?}"),
    })
}

/// Returns an attribute of a span that must have it.
#[track_caller]
pub(crate) fn said(span: &Span, key: &str) -> String {
    attribute(&span.attributes, key).unwrap_or_else(|| panic!("no {key} in {span:#?}"))
}

/// Returns the only event of this name.
#[track_caller]
pub(crate) fn event<'s>(span: &'s Span, name: &str) -> &'s Event {
    let found: Vec<_> = span.events.iter().filter(|it| it.name == name).collect();
    let [event] = found[..] else {
        panic!("{name} in {span:#?}");
    };
    event
}

/// Returns an attribute of an event as a number.
#[track_caller]
pub(crate) fn number(event: &Event, key: &str) -> u64 {
    attribute(&event.attributes, key).unwrap().parse().unwrap()
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}
