//! Which calls are circles, and which are not.

use super::*;

const SECOND: u64 = 1_000_000_000;

fn watch() -> Watch {
    Watch { repeats: 3, alternations: 3, errors: 4, fan_out: 5, within: 60 * SECOND, except: Vec::new() }
}

/// A conversation; each call is a tool and its arguments, at a second.
struct Talk(Arc<Mutex<Trail>>, Watch);

impl Talk {
    fn new() -> Talk {
        Talk(Arc::default(), watch())
    }

    fn call(&self, tool: u64, arguments: u64, at: u64) -> Result<Watched, Runaway> {
        Watched::begin(Arc::clone(&self.0), &self.1, (tool, tool * 1000 + arguments), at * SECOND)
    }

    fn circle(&self, tool: u64, arguments: u64, at: u64) -> Option<(Circle, Option<u64>)> {
        let runaway = self.call(tool, arguments, at).err()?;
        Some((runaway.circle, runaway.after.map(|after| after.as_secs())))
    }
}

#[test]
fn the_same_call_is_told_then_refused_and_something_else_begins_anew() {
    let talk = Talk::new();
    for at in 0..3 {
        assert_eq!(talk.circle(1, 1, at), None);
    }
    assert_eq!(talk.circle(1, 1, 10), Some((Circle::Repeat, None)));
    assert_eq!(talk.circle(1, 1, 10), Some((Circle::Repeat, Some(50))));
    assert_eq!(talk.circle(1, 1, 59), Some((Circle::Repeat, Some(1))));
    // The first of them is forgotten, and one may be made again.
    assert_eq!(talk.circle(1, 1, 60), None);
    assert_eq!(talk.circle(1, 1, 60), Some((Circle::Repeat, None)));
    assert_eq!(talk.circle(1, 2, 60), None, "other arguments");
    for _ in 0..3 {
        assert_eq!(talk.circle(1, 1, 60), None, "a new beginning");
    }
}

#[test]
fn two_in_turn_are_a_circle() {
    let talk = Talk::new();
    for at in 0..6 {
        assert_eq!(talk.circle(at % 2, 1, at), None);
    }
    assert_eq!(talk.circle(0, 1, 6), Some((Circle::Alternation, None)));
    assert_eq!(talk.circle(0, 1, 6), Some((Circle::Alternation, Some(54))));
    assert_eq!(talk.circle(2, 1, 6), None);
    assert_eq!(talk.circle(0, 1, 6), None);
}

#[test]
fn work_is_no_circle() {
    let talk = Talk::new();
    // Three in turn, and the same tool on one thing after another.
    for at in 0..30 {
        assert_eq!(talk.circle(at % 3, 1, at), None);
    }
    for at in 30..60 {
        assert_eq!(talk.circle(1, at, at), None);
    }
    // The same call now and then.
    for at in 3..10 {
        assert_eq!(talk.circle(1, 1, at * 30), None);
    }
}

#[test]
fn a_tool_that_fails_whatever_it_is_asked() {
    let talk = Talk::new();
    let failed = |at, failed| talk.call(1, at, at).unwrap().ended(failed, at * SECOND);
    (0..3).for_each(|at| failed(at, true));
    failed(3, false);
    (4..8).for_each(|at| failed(at, true));
    assert_eq!(talk.circle(1, 99, 8), Some((Circle::Errors, None)));
    assert_eq!(talk.circle(1, 98, 8), Some((Circle::Errors, Some(56))));
    assert_eq!(talk.circle(2, 1, 8), None, "another tool");
    assert_eq!(talk.circle(1, 97, 64), None, "its time is over");
}

#[test]
fn one_tool_after_another() {
    let talk = Talk::new();
    for tool in 0..5 {
        assert_eq!(talk.circle(tool, 1, tool), None);
    }
    assert_eq!(talk.circle(6, 1, 5), Some((Circle::FanOut, None)));
    assert_eq!(talk.circle(7, 1, 5), Some((Circle::FanOut, Some(55))));
    assert_eq!(talk.circle(3, 2, 5), None, "one it knows");
    assert_eq!(talk.circle(7, 1, 60), None);
}

#[test]
fn what_is_kept_is_bounded() {
    let talk = Talk::new();
    for number in 0..10_000 {
        if let Ok(watched) = talk.call(number % 40, number / 7, number) {
            watched.ended(true, number * SECOND);
        }
    }
    let trail = lock(&talk.0);
    assert!(trail.run.len() <= 7 && trail.tools.len() <= 5 && trail.failing.len() <= FAILING);
    drop(trail);
    let trails = Trails::default();
    let keys = super::super::Keys::default();
    for number in 0..TRAILS + 10 {
        trails.of(keys.of(number));
    }
    assert_eq!(trails.0.len(), TRAILS);
    trails.sweep(0);
    assert!(trails.0.is_empty(), "none of them has called anything");
}
