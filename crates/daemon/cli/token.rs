//! `portcullis token`: credentials of our own, made and revoked through a running gateway, else in its state folder.

use std::sync::Arc;

use gateway::{StoreError, Tokens, TokensError};
use http::Method;
use serde_json::{Value, json};

use crate::{
    cli::{Form, JwtArgs, KeyArgs, Operator, RevokeArgs, TokenCommand, output, serve},
    client,
    credentials::{Credentials, with},
    failure::Failure,
    run,
};

/// Runs one of the subcommands.
pub(crate) fn run(command: TokenCommand) -> Result<(), Failure> {
    run::on_one_thread(async {
        match command {
            TokenCommand::Key(args) => make_key(&args).await,
            TokenCommand::Jwt(args) => sign(&args).await,
            TokenCommand::Revoke(args) => revoke(&args).await,
            TokenCommand::Ls { operator, output } => list(&operator, output.output).await,
        }
    })
}

async fn make_key(args: &KeyArgs) -> Result<(), Failure> {
    let name = args.name.as_ref().unwrap_or(&args.holder.principal);
    let mut wanted = holder(json!({ "name": name }), &args.holder);
    if !args.servers.is_empty() {
        wanted = with(wanted, "servers", json!(args.servers));
    }
    let made = ask(&args.holder.operator, Method::POST, "keys", wanted).await?;
    show(
        args.holder.output.output,
        &made,
        "key",
        "It is shown this once. To revoke it: portcullis token revoke key",
    );
    Ok(())
}

async fn sign(args: &JwtArgs) -> Result<(), Failure> {
    let mut wanted = holder(json!({}), &args.holder);
    if let Some(audience) = &args.audience {
        wanted = with(wanted, "audience", json!(audience));
    }
    let made = ask(&args.holder.operator, Method::POST, "jwt", wanted).await?;
    show(args.holder.output.output, &made, "token", "To revoke it: portcullis token revoke token");
    Ok(())
}

async fn revoke(args: &RevokeArgs) -> Result<(), Failure> {
    let mut what = with(json!({ "kind": args.kind.word() }), args.kind.member(), json!(args.name));
    for (member, value) in [("tenant", &args.tenant), ("issuer", &args.issuer)] {
        if let Some(value) = value {
            what = with(what, member, json!(value));
        }
    }
    let verb = if args.lift { Method::DELETE } else { Method::POST };
    ask(&args.operator, verb, "revocations", what).await?;
    output::print(if args.lift { "lifted" } else { "revoked" });
    Ok(())
}

async fn list(operator: &Operator, form: Form) -> Result<(), Failure> {
    let keys = ask(operator, Method::GET, "keys", Value::Null).await?;
    let revocations = ask(operator, Method::GET, "revocations", Value::Null).await?;
    let list =
        |of: &Value, member: &str| of.get(member).and_then(Value::as_array).cloned().unwrap_or_default();
    let (keys, revocations) = (list(&keys, "keys"), list(&revocations, "revocations"));
    if form == Form::Json {
        let all = json!({ "keys": keys, "revocations": revocations });
        output::print(&output::harmless_json(&all.to_string()));
        return Ok(());
    }
    let columns = ["id", "tenant", "name", "principal", "groups", "servers", "expires", "revoked"];
    output::print(&table(&columns, &keys));
    if !revocations.is_empty() {
        let columns = ["kind", "tenant", "principal", "issuer", "credential", "made"];
        output::print(&format!("\n{}", table(&columns, &revocations)));
    }
    Ok(())
}

/// Asks the gateway that has the state folder, or does it itself when none has.
async fn ask(operator: &Operator, verb: Method, page: &str, asked: Value) -> Result<Value, Failure> {
    if let Some(path) = operator.configuration()? {
        let config = Arc::new(serve::load(&path)?.config);
        match Tokens::open(&config.state_dir).await {
            Ok(tokens) => {
                let tokens = Arc::new(tokens);
                let credentials = Credentials::new(config, Arc::clone(&tokens));
                let answer = credentials.answer(&verb, page, asked).await;
                tokens.close().await;
                return answer.map_err(|trouble| Failure::answer(trouble.why));
            }
            Err(TokensError::Store(StoreError::InUse { .. })) => (),
            Err(error) => return Err(Failure::system(error.to_string())),
        }
    }
    let url = format!("{}/admin/v1/{page}", operator.admin.trim_end_matches('/'));
    let body = if asked.is_null() { String::new() } else { asked.to_string() };
    let answer = client::ask(verb, &url, operator.credential()?, body.into()).await?;
    if answer.is_empty() {
        return Ok(Value::Null);
    }
    serde_json::from_slice(&answer).map_err(|error| Failure::unavailable(format!("{url}: {error}")))
}

fn holder(mut wanted: Value, holder: &crate::cli::Holder) -> Value {
    wanted = with(wanted, "principal", json!(holder.principal));
    for (member, list) in [("groups", &holder.groups), ("scopes", &holder.scopes)] {
        if !list.is_empty() {
            wanted = with(wanted, member, json!(list));
        }
    }
    if let Some(tenant) = &holder.tenant {
        wanted = with(wanted, "tenant", json!(tenant));
    }
    if let Some(seconds) = holder.expires_in {
        wanted = with(wanted, "expires_in", json!(seconds));
    }
    wanted
}

/// The text alone on the standard output, so that a script can keep it; what goes with it beside.
fn show(form: Form, made: &Value, member: &str, advice: &str) {
    if form == Form::Json {
        output::print(&output::harmless_json(&made.to_string()));
        return;
    }
    let text = |member: &str| made.get(member).and_then(Value::as_str).unwrap_or_default();
    let name = if text("id").is_empty() { text("credential") } else { text("id") };
    output::print(text(member));
    output::complain(&output::harmless(&format!("{advice} {name}")));
}

fn table(columns: &[&str], rows: &[Value]) -> String {
    let cell = |row: &Value, column: &str| match row.get(column) {
        None | Some(Value::Null) => "-".to_owned(),
        Some(Value::String(text)) => output::first_line(text, 60),
        Some(Value::Array(items)) => {
            let items: Vec<_> = items.iter().filter_map(Value::as_str).collect();
            output::first_line(&items.join(","), 60)
        }
        Some(other) => other.to_string(),
    };
    let rows: Vec<_> =
        rows.iter().map(|row| columns.iter().map(|column| cell(row, column)).collect()).collect();
    let headings: Vec<_> = columns.iter().map(|column| column.to_uppercase()).collect();
    output::table(&headings.iter().map(String::as_str).collect::<Vec<_>>(), &rows)
}

/// Reads `90`, `90s`, `15m`, `12h` or `30d` as seconds.
pub(super) fn seconds(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match text.get(digits.len()..) {
        Some("" | "s") => 1,
        Some("m") => 60,
        Some("h") => 60 * 60,
        Some("d") => 24 * 60 * 60,
        _ => return Err("write it as `90s`, `15m`, `12h` or `30d`".to_owned()),
    };
    let number: u64 = digits.parse().map_err(|_| "write it as `90s`, `15m`, `12h` or `30d`".to_owned())?;
    number.checked_mul(unit).ok_or_else(|| "that is too long".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_a_unit_or_is_in_seconds() {
        for (text, expected) in [
            ("90", Some(90)),
            ("90s", Some(90)),
            ("15m", Some(900)),
            ("2h", Some(7200)),
            ("30d", Some(2_592_000)),
        ] {
            assert_eq!(seconds(text).ok(), expected, "{text}");
        }
        for text in ["", "d", "-1d", "1w", "1 d", "1.5h", "99999999999999999999", "999999999999999999d"] {
            assert!(seconds(text).is_err(), "{text}");
        }
    }

    #[test]
    fn keys_are_listed_in_columns() {
        let rows = [json!({ "id": "abcdef", "groups": ["a", "b"], "expires": 7, "revoked": null })];
        let table = table(&["id", "groups", "expires", "revoked"], &rows);
        assert_eq!(table, "ID      GROUPS  EXPIRES  REVOKED\nabcdef  a,b     7        -\n");
    }
}
