//! Logins of `portcullis connect`: what is asked of whom, in which order, and what is never asked.

use std::{fs, os::unix::fs::PermissionsExt as _};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::{Value, json};
use testkit::StdioClient;

use super::{
    MODERN,
    authority::{Page, Stand, form},
    guarded, plain,
};

const HELLO: &str =
    r#"{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}"#;
const CALL: &str = r#"{"name":"act"}"#;

/// A client whose user has logged in.
fn logged_in(stand: &Stand) -> (StdioClient, Page) {
    let mut client = stand.client();
    let hello = client.begin("initialize", HELLO);
    let page = stand.log_in();
    assert_eq!(client.answer(hello)["result"]["serverInfo"]["name"], "guarded");
    (client, page)
}

/// Ends well, and has told nobody a secret.
fn close(client: StdioClient) -> String {
    let (status, _, errors) = client.close();
    assert_eq!(status.code(), Some(0), "{errors}");
    for secret in ["access-", "refresh-", "c0de", "s3cret"] {
        assert!(!errors.contains(secret), "{errors}");
    }
    errors
}

fn sentence(answer: &Value) -> &str {
    assert_eq!(answer["error"]["code"], -32603, "{answer}");
    answer["error"]["message"].as_str().unwrap()
}

fn field(body: &str, name: &str) -> Option<String> {
    form(body).into_iter().find(|(known, _)| known == name).map(|(_, value)| value)
}

#[test]
fn a_login_is_bound_to_who_asks_and_what_for_and_is_kept() {
    let stand = Stand::new();
    let (client, page) = logged_in(&stand);
    assert!(page.0.starts_with(&format!("{}/authorize?", stand.issuer())), "{}", page.0);
    assert_eq!(page.field("scope"), "a offline_access");
    assert_eq!(page.field("resource"), stand.url());
    assert_eq!(page.field("code_challenge_method"), "S256");
    let [registration] = stand.came("POST /register").try_into().unwrap();
    let registered: Value = serde_json::from_str(&registration.body).unwrap();
    assert_eq!(registered["application_type"], "native");
    assert_eq!(registered["redirect_uris"], json!([page.field("redirect_uri")]));
    let [asked] = stand.came("POST /token").try_into().unwrap();
    let of = |name: &str| field(&asked.body, name).unwrap_or_default();
    assert_eq!((of("grant_type").as_str(), of("code").as_str()), ("authorization_code", "c0de"));
    assert_eq!((of("resource"), of("redirect_uri")), (stand.url(), page.field("redirect_uri")));
    assert_eq!(of("client_id"), page.field("client_id"));
    let digest = wire::digest_of(of("code_verifier").as_bytes()).0;
    assert_eq!(URL_SAFE_NO_PAD.encode(digest), page.field("code_challenge"));
    assert!(close(client).contains("log in to"));
    assert_eq!(fs::metadata(stand.file()).unwrap().permissions().mode() & 0o777, 0o600);

    // The next start has it.
    let mut client = stand.client();
    assert_eq!(client.request("initialize", HELLO)["result"]["serverInfo"]["name"], "guarded");
    assert_eq!(close(client), "");
    stand.no_page();
    assert_eq!(stand.came("POST /token").len(), 1);
}

#[test]
fn metadata_are_looked_for_in_order() {
    let stand = Stand::new();
    let places = [
        "/.well-known/oauth-authorization-server/t1",
        "/.well-known/openid-configuration/t1",
        "/t1/.well-known/openid-configuration",
    ];
    stand.rules().issuer = "/t1";
    stand.rules().missing = places.to_vec();
    let mut client = stand.client();
    let answer = client.request("initialize", HELLO);
    assert!(sentence(&answer).contains("/t1` has none"), "{answer}");
    let asked: Vec<String> = stand.came("GET /").into_iter().map(|came| came.line).collect();
    let expected = ["/document"].into_iter().chain(places).map(|path| format!("GET {path}"));
    assert_eq!(asked, expected.collect::<Vec<_>>());
    stand.rules().missing = places[..2].to_vec();
    let hello = client.begin("initialize", HELLO);
    stand.log_in();
    assert!(client.answer(hello)["result"].is_object());
    close(client);
}

#[test]
fn what_does_not_fit_together_ends_before_anybody_logs_in() {
    for (metadata, resource, words) in [
        (json!({ "issuer": "http://127.0.0.1" }), "/mcp", "those of another authorization server"),
        (json!({ "code_challenge_methods_supported": null }), "/mcp", "PKCE"),
        (json!({ "code_challenge_methods_supported": ["plain"] }), "/mcp", "PKCE"),
        (json!({ "registration_endpoint": null }), "/mcp", "--client-id"),
        (json!({ "token_endpoint": "http://169.254.169.254/token" }), "/mcp", "169.254.169.254"),
        (json!({ "authorization_endpoint": "file:///etc/passwd" }), "/mcp", "file:"),
        (json!({}), "/other", "is not for this URL"),
    ] {
        let stand = Stand::new();
        stand.rules().metadata = metadata;
        stand.rules().resource = resource;
        let mut client = stand.client();
        let answer = client.request("initialize", HELLO);
        assert!(sentence(&answer).contains(words), "{answer}");
        let (status, _, errors) = client.close();
        assert_eq!(status.code(), Some(69));
        assert!(errors.contains(words), "{errors}");
        stand.no_page();
        assert!(stand.came("POST /token").is_empty() && stand.came("POST /register").is_empty());
    }
}

#[test]
fn an_answer_of_somebody_else_gets_no_token() {
    let stand = Stand::new();
    let issuer = stand.issuer();
    let other = format!("{issuer}/");
    for (fields, words) in [
        (&[("code", "c0de"), ("iss", other.as_str())][..], "not of the authorization server"),
        (&[("code", "c0de")], "not of the authorization server"),
        (&[("error", "mine"), ("iss", &other)], "not of the authorization server"),
        (&[("error", "access_denied"), ("iss", &issuer)], "access_denied"),
    ] {
        let mut client = stand.client();
        let hello = client.begin("initialize", HELLO);
        let page = stand.page();
        // A stranger who does not know the state changes nothing.
        assert!(page.bring(&[("state", "guess"), ("code", "evil"), ("iss", &issuer)]).contains("400 Bad"));
        assert!(page.bring(&[("code", "evil"), ("iss", &issuer)]).contains("400 Bad"));
        page.answer(fields);
        let answer = client.answer(hello);
        let told = sentence(&answer);
        assert!(told.contains(words) && !told.contains("mine"), "{told}");
        assert!(stand.came("POST /token").is_empty() && stand.files().is_empty());
        // The next request begins anew.
        let hello = client.begin("initialize", HELLO);
        let again = stand.page();
        assert_ne!(again.field("state"), page.field("state"));
        again.answer(&[("error", "access_denied"), ("iss", &issuer)]);
        client.answer(hello);
    }
    assert_eq!(stand.came("POST /register").len(), 1, "the name is kept");
}

#[test]
fn requests_wait_for_one_login() {
    let stand = Stand::new();
    let mut client = stand.client();
    let asked: Vec<u64> = (0..4).map(|_| client.begin("ping", "{}")).collect();
    let page = stand.page();
    let mut other = stand.client();
    let modern = other.begin("server/discover", &format!("{{{MODERN}}}"));
    page.answer(&[("code", "c0de"), ("iss", &stand.issuer())]);
    for id in asked {
        assert!(client.answer(id)["result"].is_object());
    }
    assert!(other.answer(modern)["result"].is_object(), "in the stateless era, and in another process");
    assert_eq!(stand.came("POST /token").len(), 1, "{}", page.0);
    stand.no_page();
    close(client);
    close(other);
}

#[test]
fn a_login_outlives_the_request_that_began_it() {
    let stand = Stand::new();
    let mut client = stand.client();
    let given_up = client.begin("server/discover", &format!("{{{MODERN}}}"));
    let page = stand.page();
    client.notify("notifications/cancelled", &format!(r#"{{"requestId":{given_up}}}"#));
    // Lines are read in order: when this one is answered, the request has been given up.
    client.write("this is no message");
    assert_eq!(client.heard()["error"]["code"], -32700);
    page.answer(&[("code", "c0de"), ("iss", &stand.issuer())]);
    let answer = client.request("server/discover", &format!("{{{MODERN}}}"));
    assert!(answer["result"].is_object(), "{answer}");
    stand.no_page();
    assert_eq!(stand.came("POST /token").len(), 1);
    close(client);
}

#[test]
fn a_token_that_is_over_is_renewed_without_a_person_and_by_one_process_only() {
    let stand = Stand::new();
    let (client, _) = logged_in(&stand);
    close(client);
    stand.change_kept("expires", json!(1));
    let mut clients = [stand.client(), stand.client(), stand.client()];
    let asked = clients.each_mut().map(|client| client.begin("initialize", HELLO));
    for (mut client, hello) in clients.into_iter().zip(asked) {
        assert!(client.answer(hello)["result"].is_object());
        assert_eq!(close(client), "");
    }
    stand.no_page();
    let asked: Vec<String> = stand.came("POST /token").into_iter().map(|came| came.body).collect();
    let [_, renewal] = asked.as_slice() else { panic!("{asked:?}") };
    assert_eq!(field(renewal, "refresh_token").as_deref(), Some("refresh-1"));
    assert_eq!(field(renewal, "resource"), Some(stand.url()));
    assert_eq!(stand.kept()["refresh_token"], "refresh-2", "the new one is kept");
}

#[test]
fn a_refusal_is_met_by_one_renewal_and_then_by_a_login() {
    let stand = Stand::new();
    let (mut client, _) = logged_in(&stand);
    stand.rules().good = "another".to_owned();
    assert!(client.request("tools/call", CALL)["result"].is_object());
    stand.no_page();
    assert_eq!(stand.came("POST /token").len(), 2);

    stand.rules().good = "another".to_owned();
    stand.rules().refreshes = false;
    let call = client.begin("tools/call", CALL);
    stand.log_in();
    assert!(client.answer(call)["result"].is_object());
    assert_eq!(stand.came("POST /token").len(), 4);
    close(client);
}

#[test]
fn scopes_are_added_and_not_for_ever() {
    let stand = Stand::new();
    let (mut client, page) = logged_in(&stand);
    assert_eq!(page.field("scope"), "a offline_access");
    stand.rules().wants = ["b"].into();
    let call = client.begin("tools/call", CALL);
    stand.page().answer(&[("error", "access_denied"), ("iss", &stand.issuer())]);
    assert!(sentence(&client.answer(call)).contains("access_denied"));
    stand.rules().wants = ["b"].into();
    let call = client.begin("tools/call", CALL);
    assert_eq!(stand.log_in().field("scope"), "a b offline_access");
    assert!(client.answer(call)["result"].is_object());

    stand.rules().wants = ["c", "d", "e", "f", "g"].into();
    let call = client.begin("tools/call", CALL);
    for _ in 0..3 {
        stand.log_in();
    }
    assert!(sentence(&client.answer(call)).contains("403"));
    stand.no_page();

    // What was asked for and not given is not asked for again.
    stand.rules().wants = ["e"].into();
    assert!(sentence(&client.request("tools/call", CALL)).contains("`e`"));
    stand.no_page();
    assert!(client.request("tools/call", CALL)["result"].is_object());
    close(client);
}

#[test]
fn another_issuer_gets_nothing_of_the_first() {
    for gone in [false, true] {
        let stand = Stand::new();
        stand.rules().issuer = "/t1";
        let (client, _) = logged_in(&stand);
        close(client);
        stand.rules().issuer = "/t2";
        stand.rules().good = "another".to_owned();
        stand.rules().refreshes = false;
        if gone {
            stand.rules().missing =
                vec!["/.well-known/oauth-authorization-server/t1", "/.well-known/openid-configuration/t1"];
        }
        let mut client = stand.client();
        let hello = client.begin("initialize", HELLO);
        let page = stand.log_in();
        assert_eq!(page.field("client_id"), "us@/t2");
        assert!(client.answer(hello)["result"].is_object());
        close(client);
        let asked = stand.came("POST /token");
        let last = &asked.last().unwrap().body;
        assert_eq!(field(last, "grant_type").as_deref(), Some("authorization_code"));
        assert!(!last.contains("refresh-1") && !last.contains("access-1"), "{last}");
        assert_eq!(stand.files().len(), 2, "the first keeps what is its own");
        let mut client = stand.client();
        assert!(client.request("initialize", HELLO)["result"].is_object(), "the last login counts");
        close(client);
    }
}

#[test]
fn a_client_that_was_registered_by_hand_is_used() {
    let stand = Stand::new();
    stand.rules().metadata = json!({ "registration_endpoint": null });
    let file = stand.home.path().join("secret");
    fs::write(&file, "s3cret/+\n").unwrap();
    let mut command = stand.command();
    command.args(["--client-id", "by hand", "--client-secret-file"]).arg(&file);
    let mut client = StdioClient::start(&mut command);
    let hello = client.begin("initialize", HELLO);
    assert_eq!(stand.log_in().field("client_id"), "by hand");
    assert!(client.answer(hello)["result"].is_object());
    let [asked] = stand.came("POST /token").try_into().unwrap();
    let basic = base64::engine::general_purpose::STANDARD.encode("by+hand:s3cret%2F%2B");
    assert!(asked.head.contains(&format!("authorization: Basic {basic}\r\n")), "{}", asked.head);
    assert_eq!(field(&asked.body, "client_secret"), None);
    close(client);
    // A token of another client is not taken for this one's.
    let mut other = stand.command();
    let mut client = StdioClient::start(other.args(["--client-id", "other"]));
    let hello = client.begin("initialize", HELLO);
    assert_eq!(stand.log_in().field("client_id"), "other");
    assert!(client.answer(hello)["result"].is_object());
    close(client);
}

#[test]
fn a_person_logs_in_ahead_and_out() {
    let stand = Stand::new();
    let mut command = stand.command();
    let login = command.args(["--login", "--issuer", &stand.issuer()]);
    let login =
        login.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap();
    stand.log_in();
    let output = login.wait_with_output().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(0), 0), "{errors}");
    assert!(errors.contains("logged in") && !errors.contains("access-"), "{errors}");
    let mut client = stand.client();
    assert!(client.request("initialize", HELLO)["result"].is_object());
    close(client);

    let logout = || {
        let output = stand.command().arg("--logout").output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, errors) = logout();
    assert_eq!(code, Some(0), "{errors}");
    assert!(stand.files().is_empty());
    let [revoked] = stand.came("POST /revoke").try_into().unwrap();
    assert_eq!(field(&revoked.body, "token").as_deref(), Some("refresh-1"));
    let (code, errors) = logout();
    assert_eq!(code, Some(1), "{errors}");
}

#[test]
fn there_is_no_login_where_none_is_offered_or_wanted() {
    let (with_key, _) = guarded();
    let open = plain();
    for (url, token, code, words) in [
        (with_key.url(), "", 69, "offers no login"),
        (open.url(), "", 1, "wants no login"),
        (open.url(), "pck_x", 2, "PORTCULLIS_TOKEN"),
    ] {
        let home = tempfile::tempdir().unwrap();
        let mut command = super::command(&url);
        command.arg("--login").env("XDG_STATE_HOME", home.path()).env("PORTCULLIS_TOKEN", token);
        let output = command.output().unwrap();
        let errors = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), output.stdout.len()), (Some(code), 0), "{errors}");
        assert!(errors.contains(words) && !errors.contains("pck_x"), "{errors}");
    }
}

#[test]
fn no_level_of_the_log_shows_a_secret() {
    let stand = Stand::new();
    let file = stand.home.path().join("secret");
    fs::write(&file, "s3cret").unwrap();
    let start = || {
        let mut command = stand.command();
        command.args(["--log", "trace", "--client-id", "by hand", "--client-secret-file"]).arg(&file);
        StdioClient::start(&mut command)
    };
    let mut client = start();
    let hello = client.begin("initialize", HELLO);
    stand.log_in();
    assert!(client.answer(hello)["result"].is_object());
    assert!(close(client).contains("TRACE"));
    stand.change_kept("expires", json!(1));
    let mut client = start();
    assert!(client.request("initialize", HELLO)["result"].is_object());
    assert!(close(client).contains("TRACE"));
    assert_eq!(stand.came("POST /token").len(), 2);
}

#[test]
fn a_token_that_others_may_read_is_refused() {
    let stand = Stand::new();
    let (client, _) = logged_in(&stand);
    close(client);
    fs::set_permissions(stand.file(), fs::Permissions::from_mode(0o644)).unwrap();
    let output = stand.command().output().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(71), "{errors}");
    assert!(errors.contains("chmod 600") && !errors.contains("access-"), "{errors}");
}

#[test]
fn no_browser_means_none() {
    let stand = Stand::new();
    let mut command = stand.command();
    let command = command.args(["--login", "--no-browser"]).stderr(std::process::Stdio::piped());
    let mut login = command.spawn().unwrap();
    let mut line = String::new();
    let errors = login.stderr.take().unwrap();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(errors), &mut line).unwrap();
    let page = Page(line.trim().rsplit(' ').next().unwrap().to_owned());
    page.answer(&[("code", "c0de"), ("iss", &stand.issuer())]);
    assert_eq!(login.wait().unwrap().code(), Some(0));
    stand.no_page();
}
