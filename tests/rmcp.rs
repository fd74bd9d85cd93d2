//! The published Rust SDK as a client: another implementation, which knows nothing of ours.

use ::rmcp::{
    ClientLifecycleMode, ClientServiceExt as _,
    model::{CallToolRequestParams, GetPromptRequestParams, ReadResourceRequestParams},
    transport::StreamableHttpClientTransport,
};
use serde_json::{Value, json};
use testkit::{Script, Setup};

use crate::settled;

fn server(tool: &str) -> Script {
    Script::tools(&[tool]).resource("mem://note").template("mem://{id}").prompt("ask")
}

#[tokio::test]
async fn the_published_sdk_lists_and_uses_two_upstreams_through_one_url() {
    let setup = Setup::new().upstream("alpha", server("first")).upstream("beta", server("second"));
    let daemon = settled(&setup, &["alpha", "beta"]);
    let transport = StreamableHttpClientTransport::from_uri(daemon.url());
    let client = ().serve_with_lifecycle(transport, ClientLifecycleMode::Initialize).await.unwrap();
    let server = client.peer_info().unwrap().server_info.clone();
    assert_eq!(server.unwrap().name, "portcullis");

    let tools: Vec<String> =
        client.list_all_tools().await.unwrap().iter().map(|tool| tool.name.to_string()).collect();
    assert_eq!(tools, ["alpha__first", "beta__second"]);
    let resources: Vec<String> =
        client.list_all_resources().await.unwrap().iter().map(|one| one.uri.clone()).collect();
    assert_eq!(resources, ["alpha+mem://note", "beta+mem://note"]);
    let templates = client.list_all_resource_templates().await.unwrap();
    let templates: Vec<&str> = templates.iter().map(|one| one.uri_template.as_str()).collect();
    assert_eq!(templates, ["alpha+mem://{id}", "beta+mem://{id}"]);
    let prompts: Vec<String> =
        client.list_all_prompts().await.unwrap().iter().map(|one| one.name.clone()).collect();
    assert_eq!(prompts, ["alpha__ask", "beta__ask"]);

    for (tool, native) in [("alpha__first", "first"), ("beta__second", "second")] {
        let Value::Object(arguments) = json!({ "n": 1 }) else { unreachable!() };
        let call = CallToolRequestParams::new(tool).with_arguments(arguments);
        let result = client.call_tool(call).await.unwrap();
        let result = serde_json::to_value(result).unwrap();
        assert_eq!(result["content"][0]["text"], native);
        assert_eq!(result["structuredContent"]["params"]["arguments"]["n"], 1);
    }
    for id in ["alpha", "beta"] {
        let uri = format!("{id}+mem://note");
        let read = client.read_resource(ReadResourceRequestParams::new(&uri)).await.unwrap();
        let read = serde_json::to_value(read).unwrap();
        assert_eq!((&read["contents"][0]["uri"], &read["contents"][0]["text"]), (&json!(uri), &json!(id)));
        let prompt = client.get_prompt(GetPromptRequestParams::new(format!("{id}__ask"))).await.unwrap();
        let prompt = serde_json::to_value(prompt).unwrap();
        assert_eq!(prompt["messages"][0]["content"]["text"], format!("ask of {id}"));
    }
    let missing = client.call_tool(CallToolRequestParams::new("alpha__none")).await.unwrap_err();
    assert!(missing.to_string().contains("alpha__none"), "{missing}");
    client.cancel().await.unwrap();
    // It ended its session, as a good client does.
    testkit::until("the session to end", || (daemon.status()["sessions"] == 0).then_some(()));
}
