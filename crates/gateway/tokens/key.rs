//! The text of an API key: `pck_`, six characters that name it, `_`, a secret of 256 bits, a checksum.
//!
//! The fixed beginning and the checksum let secret scanners find a leaked key without guessing.

use sha2::Digest as _;

/// How every key begins.
pub(crate) const PREFIX: &str = "pck_";

/// Characters that name a key.
pub(crate) const ID: usize = 6;
/// Characters of the secret: 43 times log2(62) is a little more than 256 bits.
const SECRET: usize = 43;
/// Characters of the checksum.
const SUM: usize = 6;

const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// A key as text, well formed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Parts<'a> {
    /// Names the key; no secret.
    pub(crate) id: &'a str,
    /// What is kept of the key: enough to know it again, too little to use it. 256 random bits need no slow hash.
    pub(crate) digest: [u8; 32],
}

/// A new key. None when the random generator of the operating system fails.
pub(crate) fn make() -> Option<String> {
    let mut text = format!("{PREFIX}{}_{}", random(ID)?, random(SECRET)?);
    text.push_str(&checksum(&text));
    Some(text)
}

/// Reads a key; none when it is not well formed. Says nothing about whether there is such a key.
pub(crate) fn read(text: &str) -> Option<Parts<'_>> {
    let (body, sum) = text.split_at_checked(text.len().checked_sub(SUM)?)?;
    let (id, secret) = body.strip_prefix(PREFIX)?.split_once('_')?;
    let plain = |part: &str, length: usize| {
        part.len() == length && part.bytes().all(|byte| byte.is_ascii_alphanumeric())
    };
    if !plain(id, ID) || !plain(secret, SECRET) || checksum(body) != sum {
        return None;
    }
    Some(Parts { id, digest: sha2::Sha256::digest(text.as_bytes()).into() })
}

/// Random characters, each equally likely.
fn random(length: usize) -> Option<String> {
    let mut text = String::with_capacity(length);
    while text.len() < length {
        let mut bytes = [0; 64];
        getrandom::fill(&mut bytes).ok()?;
        // 248 is four times 62: what lies above would make some characters likelier than others.
        let fair = bytes.iter().filter(|byte| **byte < 248);
        text.extend(fair.take(length - text.len()).map(|byte| digit(u32::from(*byte))));
    }
    Some(text)
}

fn digit(number: u32) -> char {
    DIGITS.get((number % 62) as usize).map_or('0', |digit| char::from(*digit))
}

/// CRC-32 (IEEE) in base 62: against typing errors and false alarms, no protection.
fn checksum(text: &str) -> String {
    let mut crc = u32::MAX;
    for byte in text.bytes() {
        crc ^= u32::from(byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ (if crc & 1 == 1 { 0xEDB8_8320 } else { 0 });
        }
    }
    let mut rest = !crc;
    let mut sum = [0_u32; SUM];
    for place in sum.iter_mut().rev() {
        *place = rest % 62;
        rest /= 62;
    }
    sum.into_iter().map(digit).collect()
}

/// The secret of one key under the name of another, well formed.
#[cfg(test)]
#[expect(clippy::string_slice, reason = "both are keys, and ASCII")]
pub(crate) fn with_id_of(secret: &str, id: &str) -> String {
    let body = format!("{}{}", &id[..PREFIX.len() + ID], &secret[PREFIX.len() + ID..secret.len() - SUM]);
    format!("{body}{}", checksum(&body))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::string_slice, reason = "the texts are our own, and ASCII")]

    use super::{PREFIX, checksum, make, read};

    #[test]
    fn a_key_is_read_as_it_was_made_and_never_made_twice() {
        let keys = [(); 2].map(|()| make().unwrap());
        for key in &keys {
            assert!(key.starts_with(PREFIX) && key.len() == 60, "{}", key.len());
            assert_eq!(read(key).unwrap().id, &key[4..10]);
        }
        let [a, b] = keys.each_ref().map(|key| read(key).unwrap());
        assert!(a.id != b.id && a.digest != b.digest);
    }

    #[test]
    fn a_key_that_was_cut_or_changed_anywhere_is_none() {
        let key = make().unwrap();
        for end in 0..key.len() {
            assert_eq!(read(&key[..end]), None, "cut at {end}");
            let other = if &key[end..=end] == "x" { "y" } else { "x" };
            let changed = format!("{}{other}{}", &key[..end], &key[end + 1..]);
            assert_eq!(read(&changed), None, "changed at {end}");
        }
        for text in
            [format!("{key} "), format!("{key}="), format!(" {key}"), "pck_".to_owned(), "ä".repeat(30)]
        {
            assert_eq!(read(&text), None);
        }
    }

    #[test]
    fn the_checksum_is_the_one_every_scanner_knows() {
        // CRC-32 of "123456789" is 0xCBF43926 = 3421780262.
        let value = checksum("123456789").chars().fold(0_u64, |sum, c| {
            sum * 62 + super::DIGITS.iter().position(|digit| char::from(*digit) == c).unwrap() as u64
        });
        assert_eq!(value, 0xCBF4_3926);
    }
}
