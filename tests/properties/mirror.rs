//! Arguments that headers repeat: what we write is what we accept, and nothing else.

use wire::{Sent, check_mirrors, mirrored, mirrors};

use crate::{halves, oracle};

const TOOL: &str = concat!(
    r#"{"name":"t","inputSchema":{"type":"object","properties":{"a":{"type":"string","x-mcp-header":"A"},"#,
    r#""b":{"type":"object","properties":{"c":{"type":"integer","x-mcp-header":"C"}}},"#,
    r#""d":{"type":"boolean","x-mcp-header":"D"}}}}"#
);

/// A tool that came, and arguments of one that we know.
pub(crate) fn check(data: &[u8]) {
    let (value, rest) = halves(data);
    if oracle::is_strict_json(rest) == Some(true)
        && let Ok(found) = str::from_utf8(rest).map(mirrors)
        && let Ok(found) = found
    {
        let legal = |mirror: &wire::Mirror| {
            !mirror.header.is_empty()
                && mirror.header.bytes().all(|byte| byte.is_ascii_graphic() && byte != b':')
        };
        assert!(found.iter().all(legal), "{found:?}");
    }
    if oracle::is_strict_json(value) != Some(true) {
        return;
    }
    let Ok(value) = str::from_utf8(value) else { return };
    let known = mirrors(TOOL).unwrap();
    assert_eq!(known.len(), 3);
    for arguments in [
        value.to_owned(),
        format!(r#"{{"a":{value},"b":{{"c":{value}}},"d":{value}}}"#),
        format!(r#"{{"b":{{"c":{value}}}}}"#),
    ] {
        let written = mirrored(&known, Some(&arguments));
        let mut params: Vec<(Box<str>, Box<str>)> =
            written.into_iter().map(|(name, value)| (name, value.into())).collect();
        let judged = |params: &[(Box<str>, Box<str>)]| {
            let sent = Sent { version: None, method: None, name: None, params };
            check_mirrors(&known, Some(&arguments), &sent)
        };
        assert_eq!(judged(&params), Ok(()), "{arguments}");
        let Some((name, said)) = params.first().cloned() else { continue };
        params[0].1 = format!("{said}x").into();
        assert!(judged(&params).is_err(), "{arguments}");
        params[0].1 = said.clone();
        params.push((name, said));
        assert!(judged(&params).is_err(), "{arguments}");
        params.truncate(params.len() - 1);
        params.remove(0);
        assert!(judged(&params).is_err(), "{arguments}");
    }
}
