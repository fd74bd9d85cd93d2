//! An upstream that answers late, twice, out of order, and what nobody asked. What it says of a call is always true of
//! the call whose id it names: an answer that reaches somebody else was crossed on the way.

use std::collections::VecDeque;

use crate::{
    chance::Chance,
    json,
    service::{Era, Said, Service},
};

pub(crate) mod pipe;
pub(crate) mod web;

/// What is asked for by how a text ends: an answer behind the deadline of the call.
pub(crate) const LATE: &str = "-late";

/// The text that is answered with what was done so far.
pub(crate) const COUNT: &str = "count";

/// How many milliseconds a late answer is held.
const HELD: u64 = 4_000;

/// Answers that are kept, to be given again later.
const KEPT: usize = 64;

/// One server.
#[derive(Debug)]
pub(crate) struct Unruly {
    service: Service,
    /// What its answers begin with.
    name: String,
    chance: Chance,
    old: VecDeque<Answer>,
    told: Told,
}

/// How often it did what a server should not do.
#[derive(Clone, Copy, Debug, Default)]
struct Told {
    calls: u64,
    late: u64,
    twice: u64,
    again: u64,
    strange: u64,
}

/// The answer to one call.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    id: Vec<u8>,
    progress: Option<Vec<u8>>,
    text: Vec<u8>,
    /// It is given when nobody waits for it any more.
    pub(crate) is_late: bool,
}

/// What a message is answered with.
#[derive(Debug)]
pub(crate) enum Heard {
    /// Nothing: it was no request.
    Nothing,
    /// This, at once.
    Now(Vec<u8>, Said),
    /// The answer to a call, sooner or later.
    Call(Answer),
}

impl Unruly {
    /// One that calls itself so.
    pub(crate) fn new(era: Era, name: &str) -> Unruly {
        let seed = name.bytes().fold(7, |seed, byte| seed * 31 + u64::from(byte));
        Unruly {
            service: Service::new(era, 2),
            name: name.to_owned(),
            chance: Chance::new(seed),
            old: VecDeque::new(),
            told: Told::default(),
        }
    }

    /// The revision it speaks.
    pub(crate) fn era(&self) -> Era {
        self.service.era()
    }

    /// The dice of this server.
    pub(crate) fn chance(&mut self) -> &mut Chance {
        &mut self.chance
    }

    /// Takes one message.
    pub(crate) fn hear(&mut self, message: &[u8]) -> Heard {
        if json::string(message, "method") != Some(b"tools/call") {
            let mut out = Vec::new();
            return match self.service.answer(message, &mut out) {
                Said::Nothing => Heard::Nothing,
                said => Heard::Now(out, said),
            };
        }
        let Some(id) = json::scalar(message, "id") else { return Heard::Nothing };
        let text = json::string(message, "text").unwrap_or_default();
        let text = String::from_utf8_lossy(text).into_owned();
        if text == COUNT {
            let Told { calls, late, twice, again, strange } = self.told;
            let said = format!("{calls} {late} {twice} {again} {strange}");
            return Heard::Now(self.result(id, &said), Said::Result { opens: false });
        }
        self.told.calls += 1;
        let is_late = text.ends_with(LATE);
        self.told.late += u64::from(is_late);
        let progress = json::scalar(message, "progressToken").map(|token| {
            let mut out =
                br#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":1,"message":""#
                    .to_vec();
            out.extend_from_slice(text.as_bytes());
            out.extend_from_slice(br#"","progressToken":"#);
            out.extend_from_slice(token);
            out.extend_from_slice(b"}}");
            out
        });
        // Some servers answer every id as text.
        let spelled = match self.chance.one_in(16) {
            true => [b"\"", id, b"\""].concat(),
            false => id.to_vec(),
        };
        let text = self.result(&spelled, &format!("{}/{text}", self.name));
        Heard::Call(Answer { id: id.to_vec(), progress, text, is_late })
    }

    fn result(&self, id: &[u8], text: &str) -> Vec<u8> {
        let head: &[u8] = br#"{"jsonrpc":"2.0","id":"#;
        let content: &[u8] = br#","result":{"content":[{"type":"text","text":""#;
        [head, id, content, text.as_bytes(), br#""}],"isError":false"#, self.service.complete(), b"}}"]
            .concat()
    }

    /// All that is said in the place of one answer.
    pub(crate) fn released(&mut self, answer: Answer) -> Vec<Vec<u8>> {
        let mut said = Vec::new();
        if self.chance.one_in(8)
            && let Some(at) = self.chance.below(self.old.len())
            && let Some(old) = self.old.get(at).filter(|old| old.id != answer.id)
        {
            said.push(old.text.clone());
            self.told.again += 1;
        }
        if self.chance.one_in(8) {
            said.push(self.strange(&answer.id));
            self.told.strange += 1;
        }
        said.extend(answer.progress.clone());
        said.push(answer.text.clone());
        if self.chance.one_in(8) {
            said.push(answer.text.clone());
            self.told.twice += 1;
        }
        if self.old.len() == KEPT {
            self.old.pop_front();
        }
        self.old.push_back(answer);
        said
    }

    /// An answer to what was never asked.
    fn strange(&mut self, near: &[u8]) -> Vec<u8> {
        let near = String::from_utf8_lossy(near);
        let ids = [
            format!("1{near}000000"),
            format!("-{near}"),
            format!("{near}.5"),
            "\"nobody\"".to_owned(),
            "null".to_owned(),
        ];
        let id = self.chance.below(ids.len()).and_then(|at| ids.get(at)).cloned().unwrap_or_default();
        self.result(id.as_bytes(), "nobody asked")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(text: &str) -> String {
        format!(
            r#"{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{{"name":"echo","_meta":{{"progressToken":7}},"arguments":{{"text":"{text}"}}}}}}"#
        )
    }

    #[test]
    fn each_call_is_answered_truly_whatever_else_is_said() {
        let mut unruly = Unruly::new(Era::Modern, "one");
        for number in 0..1000 {
            let Heard::Call(answer) = unruly.hear(call(&format!("m{number}")).as_bytes()) else { panic!() };
            let said = unruly.released(answer);
            let said: Vec<serde_json::Value> =
                said.iter().map(|one| serde_json::from_slice(one).unwrap()).collect();
            let mine = said.iter().filter(|one| one["id"] == 7 || one["id"] == "7");
            let texts: Vec<_> =
                mine.map(|one| one["result"]["content"][0]["text"].as_str().unwrap()).collect();
            assert!(
                texts.iter().all(|text| *text == format!("one/m{number}")) && !texts.is_empty(),
                "{texts:?}"
            );
        }
        assert!(unruly.told.twice > 50 && unruly.told.strange > 50);
    }

    #[test]
    fn it_says_what_it_did() {
        let mut unruly = Unruly::new(Era::Legacy, "one");
        unruly.hear(call("x-late").as_bytes());
        let Heard::Now(said, _) = unruly.hear(call(COUNT).as_bytes()) else { panic!() };
        assert_eq!(json::string(&said, "text"), Some(&b"1 1 0 0 0"[..]));
        assert!(matches!(
            unruly.hear(br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#),
            Heard::Nothing
        ));
    }
}
