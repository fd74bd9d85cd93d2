//! What is asked for, by whom, and how often; and what servers get to see.

use super::{ClientKey, ClientProof, Credential, Fact, Grant, Identity, Proof, Signing, TokenServer};
use crate::caller::Caller;
use crate::fake::{Asked, Fake, fine, legacy, text};
use crate::scripted::CALM;
use crate::{Declared, Exchange, Incoming, Seat, Upstream, UpstreamError};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use url::Url;

mod asked;
mod keeping;
mod proven;

/// A secret that has to be encoded, and must be nowhere to be seen.
const SECRET: &str = "s3cret+/:é&=";
const RESOURCE: &str = "https://up.example/mcp";

/// A token server that answers with this.
async fn issuer(answer: impl Fn(&Asked) -> (u16, Value) + Send + Sync + 'static) -> (Fake, Url) {
    let fake = Fake::raw(move |asked| {
        let (status, body) = answer(&asked);
        let body = body.to_string();
        let head = format!("HTTP/1.1 {status} X\r\nContent-Type: application/json\r\n");
        format!("{head}Content-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
    })
    .await;
    let mut fake = fake;
    let url = fake.address().url.clone();
    (fake, url)
}

/// One that gives a new token each time.
async fn generous() -> (Fake, Url) {
    let turn = crate::fake::Turn::default();
    issuer(move |_| (200, token(&format!("tok-{}", turn.next())))).await
}

fn token(text: &str) -> Value {
    json!({ "access_token": text, "token_type": "Bearer", "expires_in": 3600, "refresh_token": "never-kept" })
}

fn grant(server: TokenServer) -> Grant {
    Grant {
        server,
        client_id: "gate way".to_owned(),
        proof: ClientProof::Secret(SECRET.to_owned()),
        scopes: vec!["a".to_owned(), "b:c".to_owned()],
        resource: RESOURCE.to_owned(),
    }
}

fn credential(proof: Proof) -> Arc<Credential> {
    Credential::new(("acme".into(), "web".into()), proof, None).unwrap()
}

fn caller(subject: &str, bearer: Option<&str>) -> Arc<Caller> {
    Arc::new(Caller {
        tenant: "acme".into(),
        issuer: "https://id.example".into(),
        subject: subject.into(),
        groups: Box::new(["eng".into(), "on,call".into()]),
        bearer: bearer.map(Box::from),
    })
}

/// The fields of a form, none twice.
fn fields(asked: &Asked) -> BTreeMap<String, String> {
    assert_eq!(asked.header("content-type"), "application/x-www-form-urlencoded");
    let text = asked.body.as_str().unwrap_or_default();
    let pairs: Vec<(String, String)> = url::form_urlencoded::parse(text.as_bytes()).into_owned().collect();
    let fields: BTreeMap<String, String> = pairs.iter().cloned().collect();
    assert_eq!(fields.len(), pairs.len(), "{text}");
    fields
}

/// A server that takes everybody.
async fn server(credential: &Arc<Credential>) -> Fake {
    let mut fake = Fake::new(legacy(fine)).await;
    fake.address().credential = Arc::clone(credential);
    fake
}

async fn call(upstream: &Arc<Upstream>, caller: Option<&Arc<Caller>>) -> Result<(), UpstreamError> {
    let connection = upstream.connection().await?;
    let build = |id: &wire::Id| {
        format!(r#"{{"jsonrpc":"2.0","id":{},"method":"tools/call","params":{{"name":"x"}}}}"#, id.raw())
            .into()
    };
    let method = wire::Method::ToolsCall;
    let outbound = crate::Outbound { method, name: Some("x"), mirrored: &[], caller, build: &build };
    let mut exchange: Exchange = connection.send_outbound(&outbound, CALM)?;
    match exchange.next().await {
        Incoming::Answer(_) => Ok(()),
        Incoming::Failed(error) => Err(error),
        other => panic!("{other:?}"),
    }
}

/// The values of a header in all calls of tools that a server heard.
fn shown(fake: &Fake, header: &str) -> Vec<String> {
    let calls = fake.journal().into_iter().filter(|asked| asked.method() == "tools/call");
    calls.map(|asked| asked.header(header).to_owned()).collect()
}

fn no(why: &'static str) -> Result<(), UpstreamError> {
    Err(UpstreamError::Credential { why })
}
