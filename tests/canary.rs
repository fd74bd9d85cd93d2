//! Two tenants do everything at once, and in nothing that one of them can read is a word of the other; secrets are
//! nowhere.

mod outputs;
mod search;
mod side;

use std::thread;

use testkit::{Daemon, until};
use wire::Era;

use self::{
    outputs::{ALL, OUTPUTS},
    search::found,
    side::{Seen, Side},
};
use crate::PORTCULLIS;

const WORDS: [&str; 2] = ["amber9f3", "cobalt7c1"];

fn daemon() -> Daemon {
    let [amber, cobalt] = WORDS.map(side::setup);
    let setup = amber.beside(cobalt).process("legacy_sse: true");
    let daemon = setup.start(PORTCULLIS);
    for word in WORDS {
        for id in ["s", "h", "x"] {
            daemon.settled(&format!("{word}-{id}"));
        }
        daemon.journal(&format!("{word}-x")).open("dead");
    }
    daemon
}

/// Both, at the same time; one of them with a file that is broken meanwhile.
fn played(daemon: &Daemon, era: Era) -> [Seen; 2] {
    let sides = WORDS.map(|word| Side::new(daemon, word, era));
    thread::scope(|scope| {
        let running = sides.map(|side| scope.spawn(|| side.play()));
        let file = format!("tenants/{}.yaml", WORDS[0]);
        daemon.rewrite(&file, |text| format!("{text}{}_broken: true\n", WORDS[0]));
        daemon.reload();
        assert!(daemon.status()["reload_refused"].to_string().contains(WORDS[0]));
        daemon.rewrite(&file, |text| text.replace(&format!("{}_broken: true\n", WORDS[0]), ""));
        daemon.reload();
        running.map(|side| side.join().unwrap())
    })
}

fn look(daemon: &Daemon, [one, other]: [&Seen; 2]) -> Vec<String> {
    let mut theirs = vec![other.word.to_owned()];
    theirs.extend(other.ids.iter().cloned());
    let mut wrong = Vec::new();
    for (name, read) in OUTPUTS {
        let text = read(daemon, one);
        wrong.extend(found(&text, &theirs).iter().map(|place| format!("{name} of {}: {place}", one.word)));
        // What bears no mark of its own was not looked at.
        assert!(!found(&text, &[one.word.to_owned()]).is_empty(), "nothing of {} in {name}", one.word);
    }
    for (name, read) in ALL {
        let text = read(daemon, one);
        wrong.extend(found(&text, &other.secrets).iter().map(|place| format!("{name}: a secret: {place}")));
        wrong.extend(found(&text, &one.secrets).iter().map(|place| format!("{name}: a secret: {place}")));
    }
    wrong
}

fn play(era: Era) {
    let daemon = daemon();
    let [amber, cobalt] = played(&daemon, era);
    until("what was said on the standard error to be logged", || {
        WORDS.iter().all(|word| daemon.log().contains(&format!("{word} complains of ***"))).then_some(())
    });
    let wrong = [look(&daemon, [&amber, &cobalt]), look(&daemon, [&cobalt, &amber])].concat();
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
    // The search finds what is planted in any of it.
    for (name, read) in OUTPUTS {
        let planted = [read(&daemon, &amber), cobalt.word.as_bytes().to_vec()].concat();
        assert!(!found(&planted, &[cobalt.word.to_owned()]).is_empty(), "{name}");
    }
}

#[test]
fn nothing_of_one_tenant_is_in_what_another_reads_in_sessions() {
    play(Era::Legacy);
}

#[test]
fn nothing_of_one_tenant_is_in_what_another_reads_without_sessions() {
    play(Era::Modern);
}
