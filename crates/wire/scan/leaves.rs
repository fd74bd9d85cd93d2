//! Values without parts: strings, numbers and the three words. They are passed, not read.

use super::Scanner;
use crate::{frame::FrameError, text};

impl Scanner<'_> {
    /// Passes a string whose opening quote stands next; true when it holds an escape.
    #[inline(always)]
    pub(super) fn string(&mut self) -> Result<bool, Box<FrameError>> {
        self.at += 1;
        self.at += text::plain_length(self.text.get(self.at..).unwrap_or_default());
        if self.text.get(self.at) == Some(&b'"') {
            self.at += 1;
            return Ok(false);
        }
        self.escaped_string().map(|()| true)
    }

    /// Passes what is left of a string from its first escape on.
    #[inline(never)]
    fn escaped_string(&mut self) -> Result<(), Box<FrameError>> {
        loop {
            match self.text.get(self.at) {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(b'\\') => self.escape()?,
                Some(_) => return Err(self.fault("a control character in a string")),
                None => return Err(self.fault("a string does not end")),
            }
            self.at += text::plain_length(self.text.get(self.at..).unwrap_or_default());
        }
    }

    fn escape(&mut self) -> Result<(), Box<FrameError>> {
        match self.text.get(self.at + 1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.at += 2,
            Some(b'u') => match text::escaped_char(self.text.get(self.at..).unwrap_or_default()) {
                Some((_, length)) => self.at += length,
                None => {
                    let digits = self.text.get(self.at + 2..self.at + 6).unwrap_or_default();
                    if !self.is_lenient() || digits.len() < 4 || !digits.iter().all(u8::is_ascii_hexdigit) {
                        return Err(self.fault("not four hexadecimal digits, or half a surrogate pair"));
                    }
                    self.found.is_strict = false;
                    self.at += 6;
                }
            },
            _ => return Err(self.fault("an unknown escape")),
        }
        Ok(())
    }

    #[inline]
    pub(super) fn number(&mut self) -> Result<(), Box<FrameError>> {
        if self.text.get(self.at) == Some(&b'-') {
            self.at += 1;
        }
        match self.text.get(self.at) {
            Some(b'0') => self.at += 1,
            _ => self.digits()?,
        }
        if self.text.get(self.at) == Some(&b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.text.get(self.at) {
            self.at += 1;
            if let Some(b'+' | b'-') = self.text.get(self.at) {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok(())
    }

    fn digits(&mut self) -> Result<(), Box<FrameError>> {
        let rest = self.text.get(self.at..).unwrap_or_default();
        let count = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if count == 0 {
            return Err(self.fault("a digit is expected"));
        }
        self.at += count;
        Ok(())
    }

    #[inline]
    pub(super) fn word(&mut self, word: &'static [u8]) -> Result<(), Box<FrameError>> {
        if !self.text.get(self.at..).is_some_and(|rest| rest.starts_with(word)) {
            return Err(self.fault("a value is expected"));
        }
        self.at += word.len();
        Ok(())
    }
}
