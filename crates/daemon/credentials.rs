//! Credentials of our own, as operators ask for them: JSON in, JSON out. The same for the admin pages of a running
//! gateway and for the command line on the state folder of one that is stopped.

use std::sync::Arc;

use config::Config;
use gateway::{Endpoint, Tokens, TokensError, endpoint_url};
use http::{Method, StatusCode};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// API keys, tokens and revocations of one gateway.
pub(crate) struct Credentials {
    config: Arc<Config>,
    tokens: Arc<Tokens>,
}

/// Why there is no answer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Trouble {
    pub(crate) status: StatusCode,
    pub(crate) why: String,
}

impl Credentials {
    /// For a gateway with this configuration.
    pub(crate) fn new(config: Arc<Config>, tokens: Arc<Tokens>) -> Credentials {
        Credentials { config, tokens }
    }

    /// Answers what is asked of a page below `/admin/v1`. A page that only reads changes nothing (security 56).
    pub(crate) async fn answer(&self, verb: &Method, page: &str, asked: Value) -> Result<Value, Trouble> {
        let verb = verb.as_str();
        match (page.split_once('/').unwrap_or((page, "")), verb) {
            (("keys", ""), "GET") => Ok(json!({ "keys": self.tokens.list_keys().await? })),
            (("keys", ""), "POST") => self.make_key(asked).await,
            (("keys", id), "DELETE") if !id.is_empty() => {
                let revocation = json!({ "kind": "key", "id": id });
                self.tokens.revoke(read(revocation)?).await?;
                Ok(Value::Null)
            }
            (("jwt", ""), "POST") => self.sign(asked).await,
            (("revocations", ""), "GET") => {
                let revocations = self.tokens.list_revocations().await?.into_iter();
                let revocations =
                    revocations.map(|(revocation, made)| with(json!(revocation), "made", json!(made)));
                Ok(json!({ "revocations": Value::from_iter(revocations) }))
            }
            (("revocations", ""), "POST") => {
                self.tokens.revoke(read(self.with_tenant(asked)?)?).await?;
                Ok(Value::Null)
            }
            (("revocations", ""), "DELETE") => {
                self.tokens.lift(&read(self.with_tenant(asked)?)?).await?;
                Ok(Value::Null)
            }
            (("keys" | "jwt" | "revocations", _), _) => {
                let why = format!("{verb} does nothing at this page");
                Err(Trouble { status: StatusCode::METHOD_NOT_ALLOWED, why })
            }
            _ => Err(Trouble { status: StatusCode::NOT_FOUND, why: "there is no such page".to_owned() }),
        }
    }

    async fn make_key(&self, asked: Value) -> Result<Value, Trouble> {
        let made = self.tokens.create_key(read(self.for_tenant(asked)?)?).await?;
        Ok(with(json!(made.info), "key", json!(made.key.expose())))
    }

    /// Signs a token, for the tenant's default endpoint unless another is named.
    async fn sign(&self, asked: Value) -> Result<Value, Trouble> {
        let asked = self.for_tenant(asked)?;
        let asked = match (asked.get("audience"), asked.get("tenant").and_then(Value::as_str)) {
            (None, Some(tenant)) => {
                let url = endpoint_url(&self.config, &self.endpoint(tenant));
                with(asked, "audience", json!(url))
            }
            _ => asked,
        };
        let made = self.tokens.mint_jwt(read(asked)?).await?;
        Ok(json!({
            "token": made.token.expose(),
            "credential": made.credential,
            "expires": made.expires,
        }))
    }

    /// Where clients of a tenant connect: `/mcp` while there is no other tenant.
    fn endpoint(&self, tenant: &str) -> Endpoint {
        let named = self.config.tenants.len() > 1;
        Endpoint { tenant: named.then(|| tenant.into()), ..Endpoint::default() }
    }

    /// A credential is for a tenant that exists; the only one need not be named.
    fn for_tenant(&self, asked: Value) -> Result<Value, Trouble> {
        let asked = match (asked.get("tenant"), self.config.tenants.as_slice()) {
            (None, [only]) => with(asked, "tenant", json!(*only.name)),
            _ => asked,
        };
        let named = asked.get("tenant").and_then(Value::as_str);
        let tenant = self.config.tenants.iter().find(|tenant| named == Some(&*tenant.name));
        match tenant {
            Some(tenant) if tenant.identity.is_some() => Ok(asked),
            Some(tenant) => Err(refused(&format!(
                "tenant `{}` has no `identity`, so it takes no credentials: write `identity: {{ keys: true }}` in its file",
                tenant.name
            ))),
            None => Err(refused(&format!("there is no tenant `{}`", named.unwrap_or_default()))),
        }
    }

    /// The only tenant need not be named.
    fn with_tenant(&self, asked: Value) -> Result<Value, Trouble> {
        let principal = asked.get("kind").is_some_and(|kind| kind == "principal");
        if principal { self.for_tenant(asked) } else { Ok(asked) }
    }
}

fn read<T: DeserializeOwned>(asked: Value) -> Result<T, Trouble> {
    serde_json::from_value(asked).map_err(|error| refused(&error.to_string()))
}

/// An object with one more member.
pub(crate) fn with(mut object: Value, member: &str, value: Value) -> Value {
    if let Some(members) = object.as_object_mut() {
        members.insert(member.to_owned(), value);
    }
    object
}

fn refused(why: &str) -> Trouble {
    Trouble { status: StatusCode::BAD_REQUEST, why: why.to_owned() }
}

impl From<TokensError> for Trouble {
    fn from(error: TokensError) -> Trouble {
        let status = match &error {
            TokensError::Request { .. } => StatusCode::BAD_REQUEST,
            TokensError::Unknown(_) => StatusCode::NOT_FOUND,
            TokensError::ForGood => StatusCode::CONFLICT,
            TokensError::Store(_) | TokensError::Random | TokensError::DamagedKey => {
                StatusCode::INTERNAL_SERVER_ERROR
            }
        };
        Trouble { status, why: error.to_string() }
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;

    async fn desk(folder: &Path, tenants: &[&str]) -> Credentials {
        fs::create_dir_all(folder.join("tenants")).unwrap();
        let main = folder.join("portcullis.yaml");
        fs::write(&main, "tenants: tenants/*.yaml\nlisten: 127.0.0.1:7000\n").unwrap();
        for name in tenants {
            let text = format!(
                "tenant: {name}\nidentity: {{ keys: true }}\nupstreams:\n  one: {{ command: sh, trust: trusted }}\n"
            );
            fs::write(folder.join(format!("tenants/{name}.yaml")), text).unwrap();
        }
        let config = crate::cli::load(&main).unwrap().config;
        let tokens = Tokens::open(&config.state_dir).await.unwrap();
        Credentials::new(Arc::new(config), Arc::new(tokens))
    }

    async fn ask(desk: &Credentials, verb: &str, page: &str, asked: Value) -> Result<Value, u16> {
        let answer = desk.answer(&verb.parse().unwrap(), page, asked).await;
        answer.map_err(|trouble| trouble.status.as_u16())
    }

    #[tokio::test]
    async fn a_key_is_made_listed_without_its_text_and_revoked() {
        let folder = tempfile::tempdir().unwrap();
        let desk = desk(folder.path(), &["a"]).await;
        let wanted = json!({ "name": "laptop", "principal": "ann", "groups": ["dev"], "expires_in": 60 });
        let made = ask(&desk, "POST", "keys", wanted).await.unwrap();
        let (id, key) = (made["id"].as_str().unwrap(), made["key"].as_str().unwrap());
        assert!(key.starts_with(&format!("pck_{id}_")), "{made}");
        assert_eq!((&made["tenant"], &made["groups"]), (&json!("a"), &json!(["dev"])));
        let listed = ask(&desk, "GET", "keys", Value::Null).await.unwrap();
        assert!(!listed.to_string().contains(key) && listed["keys"][0]["id"] == id, "{listed}");
        assert_eq!(ask(&desk, "DELETE", &format!("keys/{id}"), Value::Null).await, Ok(Value::Null));
        let listed = ask(&desk, "GET", "keys", Value::Null).await.unwrap();
        assert!(listed["keys"][0]["revoked"].is_number(), "{listed}");
    }

    #[tokio::test]
    async fn a_token_is_for_the_endpoint_of_its_tenant() {
        for (tenants, wanted, audience) in [
            (&["a"][..], json!({ "principal": "ann" }), "http://127.0.0.1:7000/mcp"),
            (&["a", "b"], json!({ "principal": "ann", "tenant": "b" }), "http://127.0.0.1:7000/t/b/mcp"),
            (&["a"], json!({ "principal": "ann", "audience": "https://x/mcp/ops" }), "https://x/mcp/ops"),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let desk = desk(folder.path(), tenants).await;
            let made = ask(&desk, "POST", "jwt", wanted).await.unwrap();
            let claims = made["token"].as_str().unwrap().split('.').nth(1).unwrap();
            use base64::Engine as _;
            let claims = base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(claims).unwrap();
            let claims: Value = serde_json::from_slice(&claims).unwrap();
            assert_eq!((&claims["aud"], &claims["sub"]), (&json!(audience), &json!("ann")));
        }
    }

    #[tokio::test]
    async fn a_revocation_is_made_listed_and_lifted() {
        let folder = tempfile::tempdir().unwrap();
        let desk = desk(folder.path(), &["a"]).await;
        let ann = json!({ "kind": "principal", "principal": "ann" });
        assert_eq!(ask(&desk, "POST", "revocations", ann.clone()).await, Ok(Value::Null));
        let listed = ask(&desk, "GET", "revocations", Value::Null).await.unwrap();
        assert_eq!(
            (&listed["revocations"][0]["principal"], &listed["revocations"][0]["tenant"]),
            (&json!("ann"), &json!("a"))
        );
        assert_eq!(ask(&desk, "DELETE", "revocations", ann.clone()).await, Ok(Value::Null));
        assert_eq!(ask(&desk, "DELETE", "revocations", ann).await, Err(404));
    }

    #[tokio::test]
    async fn what_makes_no_sense_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let desk = desk(folder.path(), &["a", "b"]).await;
        for (verb, page, asked, status) in [
            ("GET", "", json!(null), 404),
            ("GET", "servers", json!(null), 404),
            ("POST", "servers", json!({ "command": "sh" }), 404),
            ("PUT", "keys", json!({}), 405),
            ("GET", "keys/abcdef", json!(null), 405),
            ("GET", "jwt", json!(null), 405),
            ("DELETE", "keys/nobody", json!(null), 404),
            ("POST", "keys", json!(null), 400),
            ("POST", "keys", json!({ "name": "n", "principal": "p" }), 400),
            ("POST", "keys", json!({ "name": "n", "principal": "p", "tenant": "c" }), 400),
            ("POST", "keys", json!({ "name": "n", "principal": "p", "tenant": "a", "admin": true }), 400),
            ("POST", "keys", json!({ "name": "", "principal": "p", "tenant": "a" }), 400),
            ("POST", "jwt", json!({ "principal": "p", "tenant": "a", "expires_in": 0 }), 400),
            ("POST", "revocations", json!({ "kind": "everything" }), 400),
            ("DELETE", "revocations", json!({ "kind": "key", "id": "abcdef" }), 409),
        ] {
            assert_eq!(ask(&desk, verb, page, asked.clone()).await, Err(status), "{verb} {page} {asked}");
        }
    }
}
