//! HTTP for servers at a URL, over the transport that model calls use.

mod body;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_core::stream::BoxStream;
use http::header::{ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CONTENT_TYPE, WWW_AUTHENTICATE};
use http::{HeaderName, HeaderValue, Method, Request, StatusCode, Uri, request, response};
use lifesign::transport::{
    ConnectError, ConnectProgress, Endpoint, EndpointError, Exchange, Step, Transport,
    TransportError,
};
use lifesign_core::duration::human_limit;
use rmcp::model::{ClientJsonRpcMessage, JsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_client::{
    AuthRequiredError, SseError, StreamableHttpClient, StreamableHttpError,
    StreamableHttpPostResponse, StreamableHttpResponseLimits,
};
use sse_stream::Sse;

use self::body::{events, read_whole};

/// Makes the requests of the protocol.
///
/// It has no limit of time but for connecting: how long an answer may take is for whoever waits for
/// it, and dropping what is waited for closes the connection. Redirects are not followed.
#[derive(Clone, Debug)]
pub(super) struct HttpClient {
    transport: Arc<Transport>,
}

/// Why a request came to nothing. Each says its cause itself, since the protocol's own errors do not
/// pass causes on.
#[derive(Debug, thiserror::Error)]
pub(super) enum HttpError {
    /// No connection in time.
    #[error("no connection within {}", human_limit(CONNECT))]
    ConnectLimit,
    /// No connection.
    #[error("no connection: {0}")]
    Connect(#[from] ConnectError),
    /// The connection failed.
    #[error("the connection failed: {0}")]
    Transport(#[from] TransportError),
    /// The URL names no place.
    #[error("the URL cannot be used: {0}")]
    Url(#[from] EndpointError),
    /// The request cannot be written.
    #[error("the request cannot be written: {0}")]
    Request(#[from] http::Error),
}

type Failure = StreamableHttpError<HttpError>;
type Headers = HashMap<HeaderName, HeaderValue>;
type Events = BoxStream<'static, Result<Sse, SseError>>;

impl HttpClient {
    pub(super) fn new(transport: Arc<Transport>) -> Self {
        Self { transport }
    }

    /// Sends a request and waits for the head of its response.
    #[expect(
        clippy::iter_over_hash_type,
        reason = "headers of different names have no order"
    )]
    async fn exchange(
        &self,
        url: &str,
        mut request: request::Builder,
        headers: Headers,
        token: Option<String>,
        body: Vec<u8>,
    ) -> Result<(response::Parts, Exchange), HttpError> {
        for (name, value) in headers {
            request = request.header(name, value);
        }
        if let Some(token) = token {
            request = request.header(AUTHORIZATION, format!("Bearer {token}"));
        }
        let url: Uri = url.parse().map_err(http::Error::from)?;
        let endpoint = Endpoint::parse(&url, false)?;
        let request = request
            .uri(url)
            .header(ACCEPT_ENCODING, "identity")
            .body(Bytes::from(body))?;
        let progress = ConnectProgress::new();
        let connection = tokio::select! {
            biased;
            connection = self.transport.open(&endpoint, false, &progress) => connection?,
            () = tokio::time::sleep(CONNECT) => return Err(HttpError::ConnectLimit),
        };
        let mut exchange = connection.send(request);
        loop {
            if let Step::Head(head) = exchange.step().await? {
                return Ok((head, exchange));
            }
        }
    }

    async fn open_stream(
        &self,
        url: &str,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        token: Option<String>,
        headers: Headers,
        largest: usize,
    ) -> Result<Events, Failure> {
        let mut request = with_session(Request::get("/").header(ACCEPT, EVENT_STREAM), session);
        if let Some(id) = last_event {
            request = request.header(LAST_EVENT_ID, id);
        }
        let (head, exchange) = self
            .exchange(url, request, headers, token, Vec::new())
            .await
            .map_err(StreamableHttpError::Client)?;
        if head.status == StatusCode::METHOD_NOT_ALLOWED {
            return Err(StreamableHttpError::ServerDoesNotSupportSse);
        }
        check_auth(&head)?;
        if head.status == StatusCode::NOT_FOUND {
            return Err(StreamableHttpError::SessionExpired);
        }
        if !head.status.is_success() {
            return Err(unexpected(head.status, exchange).await);
        }
        match content_type(&head) {
            Kind::Events => Ok(events(exchange, largest)),
            Kind::Json | Kind::Other(_) => Err(StreamableHttpError::ServerDoesNotSupportSse),
        }
    }
}

impl StreamableHttpClient for HttpClient {
    type Error = HttpError;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        auth_header: Option<String>,
        custom_headers: Headers,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        let limits = StreamableHttpResponseLimits::default();
        self.post_message_with_response_limits(
            uri,
            message,
            session_id,
            auth_header,
            custom_headers,
            limits,
        )
        .await
    }

    async fn post_message_with_response_limits(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        auth_header: Option<String>,
        custom_headers: Headers,
        limits: StreamableHttpResponseLimits,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        let body = serde_json::to_vec(&message)?;
        let has_session = session_id.is_some();
        let request = Request::post("/")
            .header(CONTENT_TYPE, JSON)
            .header(ACCEPT, "application/json, text/event-stream");
        let request = with_session(request, session_id);
        let (head, exchange) = self
            .exchange(&uri, request, custom_headers, auth_header, body)
            .await
            .map_err(StreamableHttpError::Client)?;

        check_auth(&head)?;
        if head.status == StatusCode::NOT_FOUND && has_session {
            return Err(StreamableHttpError::SessionExpired);
        }
        let is_request = matches!(message, JsonRpcMessage::Request(_));
        let session = header_text(&head, SESSION_ID);
        let kind = content_type(&head);
        if head.status.is_success() && !is_request {
            // There is nothing to wait for, whatever came along.
            exchange.finish();
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        match kind {
            Kind::Events if head.status.is_success() => {
                let events = events(exchange, limits.max_sse_event_size);
                Ok(StreamableHttpPostResponse::Sse(events, session))
            }
            Kind::Json => {
                let body = read_whole(exchange, limits.max_json_response_size).await?;
                match serde_json::from_slice::<ServerJsonRpcMessage>(&body) {
                    Ok(message) if head.status.is_success() => {
                        Ok(StreamableHttpPostResponse::Json(message, session))
                    }
                    // A status of an error may have the protocol's own error with it.
                    Ok(message @ JsonRpcMessage::Error(_)) => {
                        Ok(StreamableHttpPostResponse::Json(message, session))
                    }
                    Err(error) if head.status.is_success() => Err(error.into()),
                    Ok(_) | Err(_) => Err(status_error(head.status, &body)),
                }
            }
            _ if !head.status.is_success() => Err(unexpected(head.status, exchange).await),
            Kind::Events | Kind::Other(_) => {
                Err(StreamableHttpError::UnexpectedContentType(kind.into_text()))
            }
        }
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        auth_header: Option<String>,
        custom_headers: Headers,
    ) -> Result<(), Failure> {
        let request = Request::builder().method(Method::DELETE);
        let request = with_session(request, Some(session_id));
        let (head, exchange) = self
            .exchange(&uri, request, custom_headers, auth_header, Vec::new())
            .await
            .map_err(StreamableHttpError::Client)?;
        match head.status {
            StatusCode::METHOD_NOT_ALLOWED => {
                Err(StreamableHttpError::ServerDoesNotSupportDeleteSession)
            }
            status if status.is_success() => {
                exchange.finish();
                Ok(())
            }
            status => Err(unexpected(status, exchange).await),
        }
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        auth_header: Option<String>,
        custom_headers: Headers,
    ) -> Result<Events, Failure> {
        let largest = StreamableHttpResponseLimits::default().max_sse_event_size;
        self.open_stream(
            &uri,
            session_id,
            last_event_id,
            auth_header,
            custom_headers,
            largest,
        )
        .await
    }

    async fn get_stream_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        auth_header: Option<String>,
        custom_headers: Headers,
        max_sse_event_size: usize,
    ) -> Result<Events, Failure> {
        self.open_stream(
            &uri,
            session_id,
            last_event_id,
            auth_header,
            custom_headers,
            max_sse_event_size,
        )
        .await
    }
}

fn with_session(request: request::Builder, session: Option<Arc<str>>) -> request::Builder {
    match session {
        None => request,
        Some(session) => request.header(SESSION_ID, &*session),
    }
}

/// What a response's body is said to be.
enum Kind {
    Events,
    Json,
    Other(Option<String>),
}

impl Kind {
    fn into_text(self) -> Option<String> {
        match self {
            Self::Events => Some(EVENT_STREAM.to_owned()),
            Self::Json => Some(JSON.to_owned()),
            Self::Other(text) => text,
        }
    }
}

fn content_type(head: &response::Parts) -> Kind {
    let text = header_text(head, CONTENT_TYPE.as_str());
    let essence = text.as_deref().unwrap_or_default();
    let essence = essence.split(';').next().unwrap_or_default().trim();
    if essence.eq_ignore_ascii_case(EVENT_STREAM) {
        Kind::Events
    } else if essence.eq_ignore_ascii_case(JSON) {
        Kind::Json
    } else {
        Kind::Other(text)
    }
}

fn header_text(head: &response::Parts, name: &str) -> Option<String> {
    head.headers.get(name)?.to_str().ok().map(str::to_owned)
}

fn check_auth(head: &response::Parts) -> Result<(), Failure> {
    if head.status != StatusCode::UNAUTHORIZED {
        return Ok(());
    }
    let challenge = header_text(head, WWW_AUTHENTICATE.as_str()).unwrap_or_default();
    let error = AuthRequiredError::new(challenge);
    Err(StreamableHttpError::AuthRequired(error))
}

/// Tells of a status that is none to go on from, with the beginning of what came with it.
async fn unexpected(status: StatusCode, exchange: Exchange) -> Failure {
    match read_whole(exchange, SAMPLE).await {
        Ok(body) => status_error(status, &body),
        Err(_) => status_error(status, &[]),
    }
}

fn status_error(status: StatusCode, body: &[u8]) -> Failure {
    let text = String::from_utf8_lossy(body);
    let text = super::short(text.trim());
    let said = if text.is_empty() {
        format!("HTTP {status}")
    } else {
        format!("HTTP {status}: {text}")
    };
    StreamableHttpError::UnexpectedServerResponse(said.into())
}

const EVENT_STREAM: &str = "text/event-stream";
const JSON: &str = "application/json";
const LAST_EVENT_ID: &str = "last-event-id";
const SESSION_ID: &str = "mcp-session-id";

/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(10);

/// The largest body of an error that is looked at.
const SAMPLE: usize = 64 * 1024;

#[cfg(test)]
mod tests;
