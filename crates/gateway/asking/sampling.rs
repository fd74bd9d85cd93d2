//! What is asked of a client's model: the rules of its messages (spec Q-08).

use std::collections::BTreeSet;

use wire::{
    Revision,
    input::{elements, member, said},
};

use super::Unfit;

/// Messages of one question.
const MOST: usize = 1000;
/// As far as every reader counts exactly.
const MOST_TOKENS: f64 = 9_007_199_254_740_991.0;

/// Checks that an end is named, which clients are held to (spec Q-09), and the messages: what is used is answered by the next message, and that one does nothing else. A list of content
/// blocks exists since 2025-11-25. Names of tools are the question's own, and stay as they are.
///
/// # Errors
/// Which rule they break.
pub(super) fn check(params: &str, revision: Revision) -> Result<(), Unfit> {
    let most = member(params, "maxTokens").ok_or(Unfit::Shape("`maxTokens` is missing"))?;
    if !is_count(most) {
        return Err(Unfit::Shape("`maxTokens` is no number of tokens"));
    }
    let messages = member(params, "messages").filter(|raw| raw.starts_with('['));
    let messages = messages.ok_or(Unfit::Shape("`messages` is missing"))?;
    // Uses that the next message must answer.
    let mut open = BTreeSet::new();
    for (position, message) in elements(messages).enumerate() {
        if position >= MOST {
            return Err(Unfit::Shape("too many messages"));
        }
        let content = member(message, "content").ok_or(Unfit::Shape("a message has no `content`"))?;
        let is_list = content.starts_with('[');
        if is_list && revision < Revision::R2025_11_25 {
            return Err(Unfit::Shape("this client does not know lists of content"));
        }
        let blocks: Vec<&str> = if is_list { elements(content).collect() } else { vec![content] };
        let ids = |kind: &str, key: &str| -> Vec<String> {
            let of_kind =
                |block: &&&str| member(block, "type").and_then(said).is_some_and(|said| said == kind);
            let ids = blocks.iter().filter(of_kind).map(|block| member(block, key).and_then(said));
            ids.map(|id| id.unwrap_or_default().into_owned()).collect()
        };
        let (used, answered) = (ids("tool_use", "id"), ids("tool_result", "toolUseId"));
        if !answered.is_empty() && answered.len() != blocks.len() {
            return Err(Unfit::Shape("a message with tool results must hold nothing else"));
        }
        let answered: BTreeSet<String> = answered.into_iter().collect();
        if answered != open {
            return Err(Unfit::Shape("tool uses and tool results do not match"));
        }
        open = used.into_iter().collect();
    }
    match open.is_empty() {
        true => Ok(()),
        false => Err(Unfit::Shape("tool uses and tool results do not match")),
    }
}

/// Whether a JSON text is a whole number from one on, however it is written.
fn is_count(raw: &str) -> bool {
    let is_number = raw.starts_with(|c: char| c.is_ascii_digit());
    is_number
        && raw.parse::<f64>().is_ok_and(|most| (1.0..=MOST_TOKENS).contains(&most) && most.fract() == 0.0)
}
