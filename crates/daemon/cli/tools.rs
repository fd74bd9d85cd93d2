//! `portcullis tools`: what a client would see, and what a tool would answer.

use serde_json::{Value, value::RawValue};
use wire::{Frame, Kind, Shape};

use crate::{
    cli::{CallArgs, Form, Server, ToolsCommand, output},
    client::Client,
    failure::Failure,
    run,
};

/// The most pages of a list that are fetched.
const PAGES: usize = 1000;

/// How much of a description fits beside a name.
const DESCRIPTION: usize = 80;

/// Runs one of the subcommands.
pub(crate) fn run(command: ToolsCommand) -> Result<(), Failure> {
    run::on_one_thread(async {
        match command {
            ToolsCommand::Ls { server, output } => list(&server, output.output).await,
            ToolsCommand::Call(args) => call(&args).await,
        }
    })
}

async fn list(server: &Server, form: Form) -> Result<(), Failure> {
    let mut client = Client::connect(&server.url, server.token.as_deref()).await?;
    let tools = all_tools(&mut client).await;
    client.close().await;
    let tools = tools?;
    match form {
        Form::Json => output::print(&output::harmless_json(&format!("[{}]", tools.join(",")))),
        Form::Table => output::print(&tool_table(&tools)),
    }
    Ok(())
}

/// Every tool as raw JSON, in the order of the list.
async fn all_tools(client: &mut Client) -> Result<Vec<String>, Failure> {
    let mut tools = Vec::new();
    let mut params = "{}".to_owned();
    for _ in 0..PAGES {
        let answer = client.request("tools/list", &params).await?;
        fail_on_error(&answer)?;
        let page = wire::read_page(&answer, Kind::Tools)
            .map_err(|error| Failure::answer(format!("the list cannot be read: {error}")))?;
        tools.extend(page.items.iter().map(|tool| tool.raw().to_owned()));
        let Some(cursor) = page.next else { return Ok(tools) };
        params = format!("{{\"cursor\":{}}}", wire::quote(&cursor));
    }
    Err(Failure::answer(format!("the list has no end: gave up after {PAGES} pages")))
}

fn tool_table(tools: &[String]) -> String {
    let rows: Vec<_> = tools
        .iter()
        .filter_map(|raw| serde_json::from_str::<Value>(raw).ok())
        .map(|tool| {
            let member = |key: &str| tool.get(key).and_then(Value::as_str).unwrap_or_default();
            vec![
                output::first_line(member("name"), 128),
                output::first_line(member("description"), DESCRIPTION),
            ]
        })
        .collect();
    output::table(&["NAME", "DESCRIPTION"], &rows)
}

async fn call(args: &CallArgs) -> Result<(), Failure> {
    let params = format!("{{\"name\":{},\"arguments\":{}}}", wire::quote(&args.name), arguments(args)?);
    let mut client = Client::connect(&args.server.url, args.server.token.as_deref()).await?;
    let answer = client.request("tools/call", &params).await;
    client.close().await;
    let answer = answer?;
    fail_on_error(&answer)?;
    let result = answer.result().unwrap_or("{}");
    let failed = answer.result_member("isError") == Some("true");
    match args.output.output {
        Form::Json => output::print(&output::harmless_json(result)),
        Form::Table if failed => return Err(Failure::answer(readable(result))),
        Form::Table => output::print(&output::harmless(&readable(result))),
    }
    if failed { Err(Failure::answer("")) } else { Ok(()) }
}

/// The arguments as raw JSON: numbers are sent as they were typed.
fn arguments(args: &CallArgs) -> Result<String, Failure> {
    let Some(all) = &args.args else { return object(&args.pairs) };
    let object: Result<&RawValue, _> = serde_json::from_str(all);
    match object {
        Ok(object) if object.get().starts_with('{') => Ok(object.get().to_owned()),
        Ok(_) => Err(Failure::usage("`--args` must be a JSON object, such as `{\"text\":\"hello\"}`")),
        Err(error) => Err(Failure::usage(format!("`--args` is not JSON: {error}"))),
    }
}

fn object(pairs: &[String]) -> Result<String, Failure> {
    let mut members = Vec::new();
    for pair in pairs {
        let (key, value) = pair
            .split_once('=')
            .ok_or_else(|| Failure::usage(format!("argument `{pair}`: write it as `key=value`")))?;
        let value = match serde_json::from_str::<&RawValue>(value) {
            Ok(json) => json.get().to_owned(),
            Err(_) => wire::quote(value),
        };
        members.push(format!("{}:{value}", wire::quote(key)));
    }
    Ok(format!("{{{}}}", members.join(",")))
}

fn fail_on_error(answer: &Frame) -> Result<(), Failure> {
    if answer.shape() != Shape::Failure {
        return Ok(());
    }
    let message = answer.error_member("message").and_then(|raw| serde_json::from_str::<String>(raw).ok());
    let message = message.unwrap_or_else(|| "the server answered with an error".to_owned());
    let code = answer.error_member("code").unwrap_or("?");
    Err(Failure::answer(format!("{message} ({code})")))
}

/// A result as a person reads it: the texts, and whatever else there is as JSON.
fn readable(result: &str) -> String {
    let Ok(result) = serde_json::from_str::<Value>(result) else { return result.to_owned() };
    let blocks = result.get("content").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let blocks: Vec<_> = blocks
        .iter()
        .map(|block| match block.get("text").and_then(Value::as_str) {
            Some(text) => text.to_owned(),
            None => block.to_string(),
        })
        .collect();
    match result.get("structuredContent") {
        Some(structured) if blocks.is_empty() => structured.to_string(),
        _ => blocks.join("\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(pairs: &[&str]) -> Result<String, String> {
        let pairs: Vec<_> = pairs.iter().map(|&pair| pair.to_owned()).collect();
        object(&pairs).map_err(|failure| failure.to_string())
    }

    #[test]
    fn pairs_become_an_object_and_json_stays_json() {
        assert_eq!(pairs(&[]).unwrap(), "{}");
        assert_eq!(
            pairs(&[
                "text=hi there",
                "n=12345678901234567890.10",
                "ok=true",
                "list=[1, 2]",
                "q=\"7\"",
                "e=",
                "a=b=c"
            ])
            .unwrap(),
            r#"{"text":"hi there","n":12345678901234567890.10,"ok":true,"list":[1, 2],"q":"7","e":"","a":"b=c"}"#
        );
        assert_eq!(pairs(&["plain"]).unwrap_err(), "argument `plain`: write it as `key=value`");
    }

    #[test]
    fn a_result_is_shown_as_its_texts() {
        for (result, shown) in [
            (r#"{"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}"#, "a\nb"),
            (r#"{"content":[],"structuredContent":{"n":1}}"#, r#"{"n":1}"#),
            (r#"{"content":[{"type":"image","data":""}]}"#, r#"{"type":"image","data":""}"#),
            ("{}", ""),
        ] {
            assert_eq!(readable(result), shown);
        }
    }
}
