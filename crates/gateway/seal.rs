//! What a client carries for us: sealed, and good only for whom and what it was made for.

use std::fmt;

use aws_lc_rs::aead::{AES_256_GCM_SIV, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};

/// First byte of every sealed text.
const VERSION: u8 = 1;

/// What a sealed text is for. One made for another purpose does not open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// The place in a list.
    Cursor,
    /// What a server gave a client to carry between two rounds of one call.
    Input,
}

impl Purpose {
    fn byte(self) -> u8 {
        match self {
            Purpose::Cursor => 1,
            Purpose::Input => 2,
        }
    }

    /// The longest text that is looked at: nothing we seal for it comes near.
    const fn longest(self) -> usize {
        match self {
            Purpose::Cursor => 16 * 1024,
            Purpose::Input => 128 * 1024,
        }
    }
}

/// For whom a text is sealed. It opens for nobody else.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bound<'a> {
    /// The tenant.
    pub(crate) tenant: &'a str,
    /// The principal.
    pub(crate) principal: &'a str,
    /// The endpoint, and whatever else must be the same when the text comes back.
    pub(crate) endpoint: &'a str,
}

/// A key out of the store.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct SealKey {
    /// Travels in the clear with every text, so that an older key is found.
    pub(crate) id: u32,
    /// The key itself.
    pub(crate) key: [u8; 32],
    /// New texts are sealed with this one.
    pub(crate) current: bool,
}

impl fmt::Debug for SealKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SealKey")
            .field("id", &self.id)
            .field("current", &self.current)
            .finish_non_exhaustive()
    }
}

/// Why nothing can be sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    /// None or several of the keys are the current one.
    #[error("exactly one sealing key must be the current one")]
    NoCurrentKey,
    /// The random generator or the cipher refused; neither is expected to.
    #[error("the text could not be sealed")]
    Crypto,
}

/// Seals and opens. AES-256-GCM-SIV, so that a repeated nonce would tell no more than that two texts are equal.
pub(crate) struct Seal {
    current: (u32, LessSafeKey),
    older: Vec<(u32, LessSafeKey)>,
}

impl Seal {
    /// Takes the keys of the store: one current, any number of older ones that still open.
    pub(crate) fn new(keys: Vec<SealKey>) -> Result<Seal, SealError> {
        let mut current = None;
        let mut older = Vec::new();
        for SealKey { id, key, current: is_current } in keys {
            let key = UnboundKey::new(&AES_256_GCM_SIV, &key).map_err(|_| SealError::Crypto)?;
            let entry = (id, LessSafeKey::new(key));
            if !is_current {
                older.push(entry);
            } else if current.replace(entry).is_some() {
                return Err(SealError::NoCurrentKey);
            }
        }
        let current = current.ok_or(SealError::NoCurrentKey)?;
        Ok(Seal { current, older })
    }

    /// Version, key id and nonce in the clear, then the ciphertext; all of it as base64url without padding.
    pub(crate) fn seal(
        &self,
        purpose: Purpose,
        bound: &Bound<'_>,
        payload: &[u8],
    ) -> Result<String, SealError> {
        let mut nonce = [0; NONCE_LEN];
        getrandom::fill(&mut nonce).map_err(|_| SealError::Crypto)?;
        let (id, key) = &self.current;

        let mut cipher = payload.to_vec();
        key.seal_in_place_append_tag(Nonce::from(&nonce), Aad::from(associated(purpose, bound)), &mut cipher)
            .map_err(|_| SealError::Crypto)?;

        let mut sealed = vec![VERSION];
        sealed.extend_from_slice(&id.to_be_bytes());
        sealed.extend_from_slice(&nonce);
        sealed.extend_from_slice(&cipher);
        Ok(URL_SAFE_NO_PAD.encode(sealed))
    }

    /// The payload; none for anything that we did not seal for exactly this purpose and asker (spec U-02, U-03).
    pub(crate) fn open(&self, purpose: Purpose, bound: &Bound<'_>, text: &str) -> Option<Vec<u8>> {
        if text.len() > purpose.longest() {
            return None;
        }
        let sealed = URL_SAFE_NO_PAD.decode(text).ok()?;
        let (&[version], rest) = sealed.split_first_chunk::<1>()?;
        let (id, rest) = rest.split_first_chunk::<4>()?;
        let (nonce, cipher) = rest.split_first_chunk::<NONCE_LEN>()?;
        if version != VERSION {
            return None;
        }
        let key = self.key(u32::from_be_bytes(*id))?;

        let mut payload = cipher.to_vec();
        let length = key
            .open_in_place(Nonce::from(nonce), Aad::from(associated(purpose, bound)), &mut payload)
            .ok()?
            .len();
        payload.truncate(length);
        Some(payload)
    }

    fn key(&self, id: u32) -> Option<&LessSafeKey> {
        let all = std::iter::once(&self.current).chain(&self.older);
        all.into_iter().find(|(of, _)| *of == id).map(|(_, key)| key)
    }
}

/// What the ciphertext is tied to. Each part carries its length, so that no two tuples read the same.
fn associated(purpose: Purpose, bound: &Bound<'_>) -> Vec<u8> {
    let mut bytes = vec![VERSION, purpose.byte()];
    for part in [bound.tenant, bound.principal, bound.endpoint] {
        bytes.extend_from_slice(&(part.len() as u64).to_be_bytes());
        bytes.extend_from_slice(part.as_bytes());
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::{Bound, Purpose, Seal, SealError, SealKey, URL_SAFE_NO_PAD};
    use base64::Engine as _;

    const ACME: Bound<'_> = Bound { tenant: "acme", principal: "ada", endpoint: "/mcp" };

    fn key(id: u32, current: bool) -> SealKey {
        SealKey { id, key: [id as u8; 32], current }
    }

    fn seal(keys: &[SealKey]) -> Seal {
        Seal::new(keys.to_vec()).unwrap()
    }

    #[test]
    fn what_was_sealed_opens_for_the_same_asker() {
        let seal = seal(&[key(1, true)]);
        for payload in [&b""[..], b"7", &[0; 1000]] {
            let text = seal.seal(Purpose::Cursor, &ACME, payload).unwrap();
            assert_eq!(seal.open(Purpose::Cursor, &ACME, &text).as_deref(), Some(payload));
        }
    }

    #[test]
    fn the_same_payload_never_looks_the_same() {
        let seal = seal(&[key(1, true)]);
        let texts = [(); 2].map(|()| seal.seal(Purpose::Cursor, &ACME, b"7").unwrap());
        assert_ne!(texts[0], texts[1]);
    }

    #[test]
    fn it_opens_for_nobody_else() {
        let seal = seal(&[key(1, true)]);
        let text = seal.seal(Purpose::Cursor, &ACME, b"7").unwrap();
        for other in [
            Bound { tenant: "beta", ..ACME },
            Bound { principal: "bob", ..ACME },
            Bound { endpoint: "/mcp/docs", ..ACME },
            // The same bytes, cut elsewhere.
            Bound { tenant: "acmea", principal: "da", ..ACME },
            Bound { principal: "ada/", endpoint: "mcp", ..ACME },
            Bound { tenant: "", principal: "acmeada", ..ACME },
        ] {
            assert_eq!(seal.open(Purpose::Cursor, &other, &text), None, "{other:?}");
        }
    }

    #[test]
    fn it_opens_for_no_other_purpose() {
        let seal = seal(&[key(1, true)]);
        for (mine, other) in [(Purpose::Cursor, Purpose::Input), (Purpose::Input, Purpose::Cursor)] {
            let text = seal.seal(mine, &ACME, b"7").unwrap();
            assert_eq!(seal.open(mine, &ACME, &text).as_deref(), Some(&b"7"[..]));
            assert_eq!(seal.open(other, &ACME, &text), None);
        }
    }

    #[test]
    fn no_flipped_bit_and_no_cut_goes_unnoticed() {
        let seal = seal(&[key(1, true), key(0, false), key(3, false)]);
        let text = seal.seal(Purpose::Cursor, &ACME, b"page 2").unwrap();
        let sealed = URL_SAFE_NO_PAD.decode(&text).unwrap();
        for bit in 0..sealed.len() * 8 {
            let mut flipped = sealed.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            let text = URL_SAFE_NO_PAD.encode(flipped);
            assert_eq!(seal.open(Purpose::Cursor, &ACME, &text), None, "bit {bit}");
        }
        for end in 0..sealed.len() {
            let text = URL_SAFE_NO_PAD.encode(&sealed[..end]);
            assert_eq!(seal.open(Purpose::Cursor, &ACME, &text), None, "cut at {end}");
        }
    }

    #[test]
    fn one_payload_has_one_spelling() {
        let seal = seal(&[key(1, true)]);
        let text = seal.seal(Purpose::Cursor, &ACME, b"7").unwrap();
        for other in
            [format!("{text}="), format!("{text}\n"), format!(" {text}"), "ä".to_owned(), String::new()]
        {
            assert_eq!(seal.open(Purpose::Cursor, &ACME, &other), None, "{other:?}");
        }
        assert_eq!(seal.open(Purpose::Cursor, &ACME, &"A".repeat(Purpose::Cursor.longest() + 1)), None);
    }

    #[test]
    fn an_older_key_still_opens_and_an_unknown_one_does_not() {
        let before = seal(&[key(1, true)]);
        let text = before.seal(Purpose::Cursor, &ACME, b"7").unwrap();
        let after = seal(&[key(1, false), key(2, true)]);
        assert_eq!(after.open(Purpose::Cursor, &ACME, &text).as_deref(), Some(&b"7"[..]));
        let text = after.seal(Purpose::Cursor, &ACME, b"8").unwrap();
        assert_eq!(before.open(Purpose::Cursor, &ACME, &text), None);
    }

    #[test]
    fn exactly_one_key_is_current() {
        for keys in [vec![], vec![key(1, false)], vec![key(1, true), key(2, true)]] {
            assert_eq!(Seal::new(keys).err(), Some(SealError::NoCurrentKey));
        }
    }

    #[test]
    fn a_key_is_never_printed() {
        assert_eq!(format!("{:?}", key(77, true)), "SealKey { id: 77, current: true, .. }");
    }
}
