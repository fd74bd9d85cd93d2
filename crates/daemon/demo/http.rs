//! The demo's clock over Streamable HTTP: JSON answers, and a stream where progress comes before one (spec H-07).

use std::{
    convert::Infallible,
    sync::{Arc, mpsc::SyncSender},
};

use axum::{Json, response::IntoResponse as _};
use futures_util::stream;
use http::{Method, Request, Response, StatusCode, header};
use http_body::Frame;
use http_body_util::StreamBody;
use hyper::body::Incoming;
use serde_json::Value;
use tokio::{sync::mpsc, task::spawn_blocking};
use wire::{Pieces, sse};

use super::{clock::Clock, server, stdio::Pipe};
use crate::{
    listen::{Ends, Site},
    origin::Allowed,
    transport::{
        accept::sends_json,
        body::{Body, Intake},
        refusal::Refusal,
    },
};

/// Connections at a time. One gateway needs no more.
pub(super) const CONNECTIONS: usize = 64;

/// No request to a clock is larger.
const REQUEST_BYTES: usize = 64 * 1024;

/// Messages of one request that may wait to be written.
const QUEUE: usize = 8;

/// The clock at a listener of its own. It has no sessions: there is nothing to remember.
pub(super) struct ClockSite {
    allowed: Allowed,
    intake: Intake,
}

impl ClockSite {
    /// Lets in whom this lets in.
    pub(super) fn new(allowed: Allowed) -> ClockSite {
        ClockSite { allowed, intake: Intake::new(REQUEST_BYTES) }
    }

    async fn post(&self, request: Request<Incoming>) -> Result<Response<Body>, Refusal> {
        if !sends_json(request.headers()) {
            return Err(Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "the body must be JSON"));
        }
        // INVARIANT: all connections together need less room than there is.
        let (body, _) = self.intake.unread(request.into_body());
        let body = body.await.map_err(|error| Refusal::new(StatusCode::BAD_REQUEST, error.to_string()))?;
        let message: Value = serde_json::from_slice(&body).map_err(|error| {
            Refusal::new(StatusCode::BAD_REQUEST, format!("the body is not JSON: {error}"))
        })?;
        let (tell, mut told) = mpsc::channel(QUEUE);
        let output = move |message: &Value| {
            // Nobody may listen any more: then the next wait ends early.
            let _ = tell.blocking_send(message.clone());
        };
        let (mut pipe, waiting) = Pipe::for_one(Box::new(output));
        // A countdown sleeps, so it is on a thread of its own.
        spawn_blocking(move || {
            if let Some(answer) = server::reply(&mut Clock, &message, &mut pipe) {
                pipe.write(&answer);
            }
        });
        match told.recv().await {
            None => Ok(StatusCode::ACCEPTED.into_response()),
            Some(answer) if answer.get("id").is_some() => Ok(Json(answer).into_response()),
            Some(first) => Ok(events(first, told, waiting)),
        }
    }
}

/// Progress and the answer, as they come. Who closes the stream gives the request up.
fn events(first: Value, told: mpsc::Receiver<Value>, waiting: SyncSender<Value>) -> Response<Body> {
    let events = stream::unfold((Some(first), told, waiting), async |(first, mut told, waiting)| {
        let message = match first {
            Some(first) => first,
            None => told.recv().await?,
        };
        let event = sse::event(&Pieces::one(message.to_string().into()), None).join();
        Some((Ok::<_, Infallible>(Frame::data(event)), (None, told, waiting)))
    });
    let kind = [(header::CONTENT_TYPE, "text/event-stream")];
    (kind, Body::new(StreamBody::new(events))).into_response()
}

impl Site for ClockSite {
    async fn answer(self: Arc<Self>, request: Request<Incoming>, ends: Ends) -> Response<Body> {
        let (head, body) = request.into_parts();
        if let Err(refusal) = self.allowed.admit(&head, ends.local) {
            return refusal.into();
        }
        if head.method != Method::POST {
            // It has no stream of its own and no session that could end.
            return Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "POST a message")
                .with(header::ALLOW, "POST")
                .into();
        }
        self.post(Request::from_parts(head, body)).await.unwrap_or_else(Response::from)
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpStream,
    };

    use super::*;
    use crate::{
        cli,
        demo::{Folder, Places},
        listen::{self, Stop, Terms},
    };

    /// What a clock of its own answers.
    async fn ask(head: &str, body: &str) -> String {
        let listener = listen::bind((Ipv4Addr::LOCALHOST, 0).into(), "a test").await.unwrap();
        let at = listener.local_addr().unwrap();
        let folder = Folder::make().unwrap();
        let other = |port: u16| (Ipv4Addr::LOCALHOST, port).into();
        let places = Places { clients: other(1), operators: other(2), clock: at };
        let path = folder.write_config(&places, &std::env::current_exe().unwrap()).unwrap();
        let site = ClockSite::new(Allowed::for_operators(&cli::load(&path).unwrap().config));
        let serving = listen::serve(listener, Arc::new(site), Terms::plain(1), Stop::default());
        let asking = async {
            let mut stream = TcpStream::connect(at).await.unwrap();
            let length = body.len();
            let request = format!("{head}connection: close\r\ncontent-length: {length}\r\n\r\n{body}");
            stream.write_all(request.replace("HOST", &format!("host: {at}\r\n")).as_bytes()).await.unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.unwrap();
            answer
        };
        tokio::select! {
            answer = asking => answer,
            () = serving => unreachable!(),
        }
    }

    const POST: &str = "POST /mcp HTTP/1.1\r\nHOSTcontent-type: application/json\r\n";

    #[tokio::test]
    async fn a_request_is_answered_in_json_and_anything_else_is_taken() {
        let now = r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"now"}}"#;
        let answer = ask(POST, now).await;
        assert!(answer.starts_with("HTTP/1.1 200 ") && answer.contains("\"id\":7"), "{answer}");
        assert!(answer.contains("content-type: application/json"), "{answer}");
        let taken = ask(POST, r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await;
        assert!(taken.starts_with("HTTP/1.1 202 "), "{taken}");
    }

    #[tokio::test]
    async fn progress_comes_before_the_answer_in_a_stream() {
        let countdown = r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"countdown","arguments":{"seconds":1},"_meta":{"progressToken":1}}}"#;
        let answer = ask(POST, countdown).await;
        let (progress, result) = (answer.find("notifications/progress"), answer.find("1 seconds passed"));
        assert!(answer.contains("content-type: text/event-stream"), "{answer}");
        assert!(progress.is_some() && progress < result, "{answer}");
    }

    #[tokio::test]
    async fn no_page_reaches_the_clock() {
        for (head, status) in [
            ("POST /mcp HTTP/1.1\r\nHOST", "415"),
            ("POST /mcp HTTP/1.1\r\nHOSTorigin: http://evil\r\ncontent-type: application/json\r\n", "403"),
            ("POST /mcp HTTP/1.1\r\nhost: evil\r\ncontent-type: application/json\r\n", "403"),
            ("GET /mcp HTTP/1.1\r\nHOST", "405"),
        ] {
            let answer = ask(head, "").await;
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{head}: {answer}");
        }
    }
}
