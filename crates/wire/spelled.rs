//! JSON trees that can be spelled in many ways, for property tests.

use std::collections::BTreeMap;

use proptest::prelude::{Just, ProptestConfig, Strategy, any, prop, prop_oneof};

/// So many cases, and no files that remember failures: a failure becomes a test of its own.
pub(crate) fn cases(count: u32) -> ProptestConfig {
    ProptestConfig { cases: count, failure_persistence: None, ..ProptestConfig::default() }
}

/// A JSON value by meaning: keys have no order, numbers are decimal values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Tree {
    Null,
    Bool(bool),
    /// Digits without zeros at either end, times ten to some power. Zero is `0`, `0`.
    Number {
        is_negative: bool,
        digits: String,
        power: i32,
    },
    Text(String),
    List(Vec<Tree>),
    Object(BTreeMap<String, Tree>),
}

pub(crate) fn number() -> impl Strategy<Value = Tree> {
    (any::<bool>(), "[1-9]([0-9]{0,24}[1-9])?", -30..30_i32)
        .prop_map(|(is_negative, digits, power)| Tree::Number { is_negative, digits, power })
}

pub(crate) fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "[a-zA-Z_/ ]{0,12}",
        2 => "\\PC{0,8}",
        1 => prop::collection::vec(prop::sample::select(vec!['"', '\\', '\n', '\0', '\u{7f}', 'é', '\u{2028}', '😀', 'a']), 0..8)
            .prop_map(|letters| letters.into_iter().collect::<String>()),
    ]
}

pub(crate) fn tree() -> impl Strategy<Value = Tree> {
    let leaf = prop_oneof![
        Just(Tree::Null),
        any::<bool>().prop_map(Tree::Bool),
        Just(Tree::Number { is_negative: false, digits: "0".into(), power: 0 }),
        number(),
        text().prop_map(Tree::Text),
    ];
    leaf.prop_recursive(5, 48, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Tree::List),
            prop::collection::btree_map(text(), inner, 0..6).prop_map(Tree::Object),
        ]
    })
}

/// A source of spellings: the same seed spells the same tree the same way.
pub(crate) struct Spelling {
    state: u64,
    has_line_breaks: bool,
}

impl Spelling {
    pub(crate) fn new(seed: u64) -> Spelling {
        Spelling { state: seed | 1, has_line_breaks: true }
    }

    pub(crate) fn on_one_line(seed: u64) -> Spelling {
        Spelling { has_line_breaks: false, ..Spelling::new(seed) }
    }

    fn below(&mut self, limit: usize) -> usize {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        (self.state >> 33) as usize % limit
    }

    fn space(&mut self) -> &'static str {
        let choices: &[&str] =
            if self.has_line_breaks { &["", "", " ", "\n", "\t\r\n "] } else { &["", "", " ", "\t "] };
        choices[self.below(choices.len())]
    }

    pub(crate) fn tree(&mut self, tree: &Tree) -> String {
        let inside = match tree {
            Tree::Null => "null".into(),
            Tree::Bool(value) => value.to_string(),
            Tree::Number { is_negative, digits, power } => self.number(*is_negative, digits, *power),
            Tree::Text(text) => self.text(text),
            Tree::List(list) => {
                let items: Vec<_> = list.iter().map(|item| self.tree(item)).collect();
                format!("[{}{}]", self.space(), items.join(","))
            }
            Tree::Object(members) => self.object(members),
        };
        format!("{}{inside}{}", self.space(), self.space())
    }

    pub(crate) fn object(&mut self, members: &BTreeMap<String, Tree>) -> String {
        let mut parts: Vec<_> = members
            .iter()
            .map(|(key, value)| {
                format!("{}{}{}:{}", self.space(), self.text(key), self.space(), self.tree(value))
            })
            .collect();
        for last in (1..parts.len()).rev() {
            parts.swap(last, self.below(last + 1));
        }
        format!("{{{}{}}}", self.space(), parts.join(","))
    }

    fn number(&mut self, is_negative: bool, digits: &str, power: i32) -> String {
        let zeros = self.below(3);
        let digits = format!("{digits}{}", "0".repeat(zeros));
        let mut power = power - i32::try_from(zeros).unwrap();
        let mut mantissa = digits.clone();
        if self.below(2) == 0 && digits.len() > 1 && !digits.starts_with('0') {
            let dot = 1 + self.below(digits.len() - 1);
            let (whole, fraction) = digits.split_at(dot);
            mantissa = format!("{whole}.{fraction}");
            power += i32::try_from(digits.len() - dot).unwrap();
        } else if digits.starts_with('0') {
            mantissa = ["0", "0.0", "0.000"][self.below(3)].into();
        }
        let sign = if is_negative { "-" } else { "" };
        match (power, self.below(3)) {
            (0, 0 | 1) => format!("{sign}{mantissa}"),
            (_, 0) if power > 0 => format!("{sign}{mantissa}E+0{power}"),
            _ => format!("{sign}{mantissa}e{power}"),
        }
    }

    pub(crate) fn text(&mut self, text: &str) -> String {
        let mut out = String::from("\"");
        for letter in text.chars() {
            match (letter, self.below(6)) {
                (_, 0) => letter
                    .encode_utf16(&mut [0; 2])
                    .iter()
                    .for_each(|unit| out.push_str(&format!("\\u{unit:04X}"))),
                ('/', 1 | 2) => out.push_str("\\/"),
                ('\n', _) => out.push_str("\\n"),
                ('"' | '\\', _) => out.extend(['\\', letter]),
                ('\0'..' ', _) => out.push_str(&format!("\\u{:04x}", u32::from(letter))),
                _ => out.push(letter),
            }
        }
        out.push('"');
        out
    }
}
