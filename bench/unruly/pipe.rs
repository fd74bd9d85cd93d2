//! The unruly server on standard input and output: several answers are gathered, mixed, and written at once.

use std::{
    io::{self, BufRead as _, Write as _},
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};

use super::{Answer, HELD, Heard, Unruly};
use crate::{failure::Failure, service::Era};

/// So many answers are held at most, and for so long.
const MOST: usize = 6;
const PAUSE: Duration = Duration::from_millis(1);

/// Serves until standard input ends.
pub(crate) fn serve(name: &str) -> Result<(), Failure> {
    let (told, lines) = mpsc::channel();
    thread::spawn(move || {
        for line in io::stdin().lock().split(b'\n') {
            let Ok(line) = line else { return };
            if told.send(line).is_err() {
                return;
            }
        }
    });
    let mut unruly = Unruly::new(Era::Legacy, name);
    let (mut held, mut late): (Vec<Answer>, Vec<(Instant, Answer)>) = (Vec::new(), Vec::new());
    loop {
        let patience = if held.is_empty() && late.is_empty() { Duration::from_secs(3600) } else { PAUSE };
        let line = match lines.recv_timeout(patience) {
            Ok(line) => Some(line),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        };
        let is_pause = line.is_none();
        match line.map(|line| unruly.hear(&line)) {
            Some(Heard::Now(answer, _)) => write(&[answer])?,
            Some(Heard::Call(answer)) if answer.is_late => {
                late.push((Instant::now() + Duration::from_millis(HELD), answer));
            }
            Some(Heard::Call(answer)) => held.push(answer),
            Some(Heard::Nothing) | None => {}
        }
        let now = Instant::now();
        held.extend(late.extract_if(.., |(due, _)| *due <= now).map(|(_, answer)| answer));
        if is_pause || held.len() >= MOST {
            unruly.chance().shuffle(&mut held);
            let said: Vec<_> = held.drain(..).flat_map(|answer| unruly.released(answer)).collect();
            write(&said)?;
        }
    }
}

fn write(lines: &[Vec<u8>]) -> Result<(), Failure> {
    let mut out = Vec::new();
    for line in lines {
        out.extend_from_slice(line);
        out.push(b'\n');
    }
    let mut output = io::stdout().lock();
    output.write_all(&out)?;
    Ok(output.flush()?)
}
