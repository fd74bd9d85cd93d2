//! Ids of events: which stream of which session, and where in it. Made by us, or they are worth nothing.

use std::fmt;

use aws_lc_rs::{constant_time, hmac};

/// Bytes of the tag that an id carries: enough that nobody guesses one while a session lives.
const TAG: usize = 12;

/// The longest id that is looked at; ours are at most this long.
const LONGEST: usize = 10 + 1 + 20 + 1 + 2 * TAG;

/// Makes and checks the ids of one session, which is one principal's. The streams do not outlive it, so the key need not.
pub(super) struct Stamp {
    key: [u8; 32],
}

/// Where a client was when it lost a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// The stream's number within its session.
    pub(super) stream: u32,
    /// The event's number within its stream.
    pub(super) event: u64,
}

impl Stamp {
    /// A stamp that nobody else has.
    pub(super) fn new() -> Result<Stamp, getrandom::Error> {
        let mut key = [0; 32];
        getrandom::fill(&mut key)?;
        Ok(Stamp { key })
    }

    /// What an event is called.
    pub(super) fn id(&self, place: Place) -> String {
        let Place { stream, event } = place;
        format!("{stream}-{event}-{}", self.tag(place))
    }

    /// The place an id names; none for an id that this session was never given (spec H-22).
    pub(super) fn place(&self, id: &str) -> Option<Place> {
        if id.len() > LONGEST {
            return None;
        }
        let mut parts = id.split('-');
        let (stream, event) = (parts.next()?, parts.next()?);
        let place = Place { stream: stream.parse().ok()?, event: event.parse().ok()? };
        // Numbers have more than one spelling, so it is the whole id that must be the one we made.
        let ours = self.id(place);
        let is_ours = constant_time::verify_slices_are_equal(ours.as_bytes(), id.as_bytes()).is_ok();
        is_ours.then_some(place)
    }

    fn tag(&self, Place { stream, event }: Place) -> String {
        let mut context = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, &self.key));
        context.update(&stream.to_be_bytes());
        context.update(&event.to_be_bytes());
        let tag = context.sign();
        hex::encode(tag.as_ref().get(..TAG).unwrap_or_default())
    }
}

impl fmt::Debug for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stamp").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: Place = Place { stream: 3, event: 17 };

    #[test]
    fn an_id_names_the_place_it_was_made_for() {
        let stamp = Stamp::new().unwrap();
        for place in [PLACE, Place { stream: 0, event: 0 }, Place { stream: u32::MAX, event: u64::MAX }] {
            let id = stamp.id(place);
            assert!(id.len() <= LONGEST, "{id}");
            assert_eq!(stamp.place(&id), Some(place));
        }
    }

    #[test]
    fn an_id_of_another_session_is_none() {
        let id = Stamp::new().unwrap().id(PLACE);
        assert_eq!(Stamp::new().unwrap().place(&id), None);
    }

    #[test]
    fn what_was_not_made_by_us_is_none() {
        let stamp = Stamp::new().unwrap();
        let id = stamp.id(PLACE);
        let tag = id.rsplit('-').next().unwrap();
        for other in [
            String::new(),
            "3".to_owned(),
            "3-17".to_owned(),
            "3-17-".to_owned(),
            format!("3-18-{tag}"),
            format!("4-17-{tag}"),
            format!("+3-17-{tag}"),
            format!("03-17-{tag}"),
            format!("{id}-"),
            format!(" {id}"),
            id.to_uppercase() + "A",
            "9".repeat(5000),
        ] {
            assert_eq!(stamp.place(&other), None, "{other}");
        }
    }
}
