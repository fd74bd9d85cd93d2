//! The keys of all open objects, to refuse the second of two equal ones.
//!
//! Few plain keys are compared one with another. Many, long or escaped ones go through a table of positions,
//! so that no object costs more than linear time and a key costs at most 24 bytes, however it is built.

use std::hash::{BuildHasher, Hasher, RandomState};

use super::Key;

/// Up to this many keys are compared one by one.
const FEW: usize = 16;
/// Up to this many bytes a key is compared with few others.
const SHORT: usize = 128;

pub(super) struct Keys {
    /// Keys of all open objects, the innermost last.
    keys: Vec<Key>,
    /// Tables of the open objects that need one, the innermost last.
    tables: Vec<Table>,
    /// An emptied table, to be used again.
    spare: Option<Table>,
    random: Option<RandomState>,
}

/// Where the keys of one open object are.
#[derive(Clone, Copy, Default)]
pub(super) struct Object {
    first: u32,
    has_table: bool,
}

impl Keys {
    pub(super) fn new() -> Keys {
        Keys { keys: Vec::with_capacity(16), tables: Vec::new(), spare: None, random: None }
    }

    /// An object begins: the innermost one until it ends.
    pub(super) fn begin(&self) -> Object {
        Object { first: super::short(self.keys.len()), has_table: false }
    }

    /// The innermost object ends.
    #[inline]
    pub(super) fn end(&mut self, object: Object) {
        self.keys.truncate(object.first as usize);
        if object.has_table {
            self.spare = self.tables.pop();
        }
    }

    /// The newest key of the innermost open object.
    pub(super) fn last(&self) -> Option<Key> {
        self.keys.last().copied()
    }

    /// Adds a key to the innermost object; false when it is there already.
    #[inline]
    pub(super) fn add(&mut self, object: &mut Object, key: Key, text: &[u8]) -> bool {
        let earlier = self.keys.get(object.first as usize..).unwrap_or_default();
        if object.has_table || earlier.len() >= FEW || key.len() > SHORT || key.is_escaped() {
            return self.add_by_table(object, key, text);
        }
        // INVARIANT: no earlier key holds an escape, for then there would be a table.
        let is_new = !earlier.iter().any(|other| other.is_spelled(key, text));
        self.keys.push(key);
        is_new
    }

    #[inline(never)]
    fn add_by_table(&mut self, object: &mut Object, key: Key, text: &[u8]) -> bool {
        let random = &*self.random.get_or_insert_with(RandomState::new);
        self.keys.push(key);
        let keys = self.keys.get(object.first as usize..).unwrap_or_default();
        let all = Lookup { keys, text, random };
        if object.has_table {
            return self.tables.last_mut().is_none_or(|table| table.add(keys.len() - 1, &all));
        }
        object.has_table = true;
        let mut table = self.spare.take().unwrap_or_default();
        table.clear();
        let is_new = (0..keys.len()).all(|index| table.add(index, &all));
        self.tables.push(table);
        is_new
    }
}

/// The keys of one object, by number.
struct Lookup<'a> {
    keys: &'a [Key],
    text: &'a [u8],
    random: &'a RandomState,
}

impl Lookup<'_> {
    fn hash(&self, index: usize) -> usize {
        let mut hasher = self.random.build_hasher();
        if let Some(key) = self.keys.get(index) {
            hasher.write(&key.bytes(self.text));
        }
        // Only the low bits choose a slot.
        usize::try_from(hasher.finish() & u64::from(u32::MAX)).unwrap_or_default()
    }

    fn same(&self, one: usize, other: usize) -> bool {
        match (self.keys.get(one), self.keys.get(other)) {
            (Some(one), Some(other)) => one.same(*other, self.text),
            _ => false,
        }
    }
}

/// Open addressing over the numbers of the keys: four bytes a slot, at most half of them taken.
#[derive(Default)]
struct Table {
    /// 0 is free, else the number of a key plus one.
    slots: Vec<u32>,
    taken: usize,
}

impl Table {
    const SMALLEST: usize = 64;

    /// A large table is not kept: to clear it for each of many small objects would be quadratic.
    fn clear(&mut self) {
        self.slots.clear();
        self.slots.shrink_to(Table::SMALLEST);
        self.slots.resize(Table::SMALLEST, 0);
        self.taken = 0;
    }

    fn add(&mut self, index: usize, keys: &Lookup<'_>) -> bool {
        if (self.taken + 1) * 2 > self.slots.len() {
            let size = self.slots.len() * 2;
            self.slots.clear();
            self.slots.resize(size, 0);
            for earlier in 0..index {
                self.place(earlier, keys, &|_| false);
            }
        }
        let is_new = self.place(index, keys, &|other| keys.same(index, other));
        self.taken += 1;
        is_new
    }

    /// Puts a number into the first free slot after its hash; false when one on the way `is_same`.
    fn place(&mut self, index: usize, keys: &Lookup<'_>, is_same: &dyn Fn(usize) -> bool) -> bool {
        let mask = self.slots.len() - 1;
        let mut at = keys.hash(index) & mask;
        while let Some(slot) = self.slots.get_mut(at) {
            if *slot == 0 {
                *slot = super::short(index + 1);
                return true;
            }
            if is_same(*slot as usize - 1) {
                return false;
            }
            at = (at + 1) & mask;
        }
        true
    }
}
