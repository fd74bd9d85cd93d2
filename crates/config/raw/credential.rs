//! What may be written about what proves the gateway to a server.

use crate::choice::OneOf;
use crate::credential::{
    Audience, ClientId, ClientSecret, HeaderName, HeaderText, KeyId, Requested, ResourceUrl, ServerIssuer,
    TokenUrl,
};
use crate::form::Choice;
use crate::model::Signing;
use crate::reader::At;
use crate::section::{Map, OrWord, WordOr, section};
use crate::words::FilePath;

section! { "credential"
    /// What proves the gateway to the server: `none`, or one of these. What clients send to the gateway never goes there.
    Credential {
        /// The name of the one header that does; only together with `value`.
        "header" header: HeaderName;
        /// Its value, such as `"Bearer ${secret:NAME}"`. It is held as a secret.
        "value" value: HeaderText;
        /// Several headers, each with its value. The values are held as secrets.
        "headers" headers: Map<HeaderName, HeaderText>;
        /// A token that the gateway gets for itself, by the client credentials grant of OAuth.
        "client" client: Client;
        /// A token that the gateway gets for the calling principal, in exchange for the one the caller showed (RFC 8693).
        "exchange" exchange: Exchange;
        /// Who calls, in headers of the gateway's own.
        "principal" principal: Principal;
    }
    refused {}
}

section! { "credential.client"
    /// The gateway as a client of an authorization server. Its token is for everybody of the tenant who calls the upstream.
    Client {
        /// Where tokens are asked for: https, or on this machine.
        "token_url" token_url: TokenUrl, required or "issuer";
        /// The authorization server by its name: its metadata say where tokens are asked for. They must name it exactly so.
        "issuer" issuer: ServerIssuer;
        /// The name that the authorization server knows the gateway by.
        "client_id" client_id: ClientId, required;
        /// The secret it gave the gateway, such as `"${secret:NAME}"`.
        "client_secret" client_secret: ClientSecret, required or "private_key";
        /// A private key in a PEM file, which signs a token of its own with each request (RFC 7523).
        "private_key" private_key: FilePath;
        /// The `kid` of that key, if the authorization server knows it by one.
        "key_id" key_id: KeyId;
        /// How that key signs.
        "algorithm" algorithm: OneOf<Signing> = OneOf(Signing::Es256);
        /// The scopes that are asked for.
        "scopes" scopes: Vec<At<Requested>> = Vec::new();
        /// What the token is for (RFC 8707): the URL of the upstream, without its query, when left out.
        "resource" resource: ResourceUrl;
    }
    refused {}
}

section! { "credential.exchange"
    /// As `client`, but each principal has a token of its own. Only callers who show a token can be served so, not those with an
    /// API key. The lists of the upstream are read with a token of the gateway, which it gets as `client` does.
    Exchange {
        /// Where tokens are exchanged: https, or on this machine.
        "token_url" token_url: TokenUrl, required or "issuer";
        /// The authorization server by its name: its metadata say where tokens are asked for. They must name it exactly so.
        "issuer" issuer: ServerIssuer;
        /// The name that the authorization server knows the gateway by.
        "client_id" client_id: ClientId, required;
        /// The secret it gave the gateway, such as `"${secret:NAME}"`.
        "client_secret" client_secret: ClientSecret, required or "private_key";
        /// A private key in a PEM file, which signs a token of its own with each request (RFC 7523).
        "private_key" private_key: FilePath;
        /// The `kid` of that key, if the authorization server knows it by one.
        "key_id" key_id: KeyId;
        /// How that key signs.
        "algorithm" algorithm: OneOf<Signing> = OneOf(Signing::Es256);
        /// The scopes that are asked for.
        "scopes" scopes: Vec<At<Requested>> = Vec::new();
        /// What the token is for (RFC 8707): the URL of the upstream, without its query, when left out.
        "resource" resource: ResourceUrl;
        /// The name of the upstream where the authorization server wants one beside `resource`.
        "audience" audience: Audience;
    }
    refused {}
}

section! { "credential.principal"
    /// Who calls. The lists of the upstream are read as the principal `portcullis`.
    Principal {
        /// What is told, each in a header of its own.
        "headers" headers: PrincipalHeaders = PrincipalHeaders::default();
        /// Whether `X-Portcullis-Identity` holds the same, `subject` at least, in a JWT of 60 s that the gateway signed for
        /// the URL of the upstream. Its keys are at `/.well-known/jwks.json`.
        "sign" sign: bool = true;
    }
    refused {}
}

section! { "credential.principal.headers"
    /// What is told of a principal. What is left out is not told.
    PrincipalHeaders {
        /// Its name within its issuer.
        "subject" subject: HeaderName;
        /// Its tenant.
        "tenant" tenant: HeaderName;
        /// Its groups, with commas between.
        "groups" groups: HeaderName;
        /// Who vouches for it.
        "issuer" issuer: HeaderName;
    }
    refused {}
}

/// What a server is shown, or nothing.
pub(crate) type Shown = WordOr<Credential>;

impl OrWord for Credential {
    const WORD: &'static Choice = &Choice { word: "none", doc: "nothing", refused: None };
}
