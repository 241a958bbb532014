//! The frozen form of a column: the same cells, as an Arrow array that nobody stores to any more.
//!
//! ```text
//!              freeze: cells are shared or put into one piece, strings are gathered
//!      ┌──────────────────────────────────────────────────────────────────┐
//!     hot                                                               frozen ── array, statistics
//!      └──────────────────────────────────────────────────────────────────┘
//!              thaw: cells are copied, strings are shared
//! ```
//!
//! After "Mainlining Databases", sections 4.3 and 4.4: the gathering phase, and dictionary compression where a
//! column has few different strings: then each is gathered once, and views share it. Both forms have their cells in one
//! layout: whoever reads a row need not know which he reads. Who freezes, and why nobody stores to
//! a frozen column, is in `freeze`.
//!
//! Rows that are gone keep their cells: the collector may still ask for their keys. So statistics are
//! bounds: of what is there, and of what was.

use std::hash::{BuildHasher, Hash};
use std::sync::{Arc, OnceLock};

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int16Type, Int32Type,
    Int64Type, Time64MicrosecondType, TimestampMicrosecondType,
};
use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;
use crossbeam_epoch::Guard;
use froglet_engine::id::ROWS_PER_BLOCK;
use froglet_engine::{
    ColumnId, ColumnStats, ColumnType, Dictionary, EngineError, IdMap, Value, numeric,
};

use super::Column;
use crate::arrow::{array_of, booleans, nulls_of};
use crate::cells::{Bits, Cells, piece_bytes, whole_segments};
use crate::heap::{Heap, INLINE_MAX};
use crate::memory::{Budget, Zeroed};
use crate::sync::atomic::Ordering;

/// Bits of the sketch that distinct values are counted with.
const SKETCH_BITS: usize = 4 * ROWS_PER_BLOCK;

/// Bounds of strings are not longer.
const BOUND_BYTES: usize = 64;

/// What a frozen column has beside its cells.
#[derive(Debug)]
pub(crate) struct Frozen {
    /// Every row of the block up to the last that was handed out when it was frozen.
    pub array: ArrayRef,
    /// Of numbers found by the freezer, for it costs next to nothing; else when somebody asks.
    pub(super) stats: OnceLock<ColumnStats>,
    /// Long strings that are there once.
    pub is_dictionary: bool,
}

/// What the dictionary of a column that takes one may have at most: one word for so many strings.
const STRINGS_PER_WORD: usize = 4;
/// So many strings say whether a dictionary is worth while.
const SAMPLE: usize = 256;

/// What a column is frozen with.
pub(crate) struct Freezing<'a> {
    /// What is said of all columns, and of some of them.
    pub dictionary: Dictionary,
    pub chosen: &'a [(ColumnId, Dictionary)],
    pub budget: &'a Arc<Budget>,
    pub guard: &'a Guard,
}

impl Freezing<'_> {
    fn dictionary_of(&self, column: ColumnId) -> Dictionary {
        let chosen = self.chosen.iter().find(|(id, _)| *id == column);
        chosen.map_or(self.dictionary, |(_, dictionary)| *dictionary)
    }
}

/// Strings gathered.
struct Gathered {
    /// In one piece, and for how many rows.
    cells: (Zeroed, usize),
    validity: Bits,
    heap: Heap,
    is_dictionary: bool,
}

impl Column {
    /// What makes the column a frozen one.
    #[inline]
    pub fn frozen(&self) -> Option<&Frozen> {
        self.frozen.as_deref()
    }

    /// Bounds of the values of a frozen one.
    pub fn stats(&self) -> Option<&ColumnStats> {
        let frozen = self.frozen()?;
        Some(frozen.stats.get_or_init(|| stats_of(self.ty, &frozen.array)))
    }

    /// About how many different values a frozen one has.
    pub fn distinct(&self) -> Option<usize> {
        Some(distinct_of(self.ty, &self.frozen()?.array))
    }

    /// The first `rows` cells frozen. The caller sees to it that nobody stores to them meanwhile, but
    /// the collector to forget strings; or that the column is thrown away, and nobody reads it.
    pub fn freeze(&self, rows: usize, freezing: &Freezing<'_>) -> Result<Column, EngineError> {
        let &Freezing { budget, guard, .. } = freezing;
        let ((piece, there), validity, heap, is_dictionary) = match &self.heap {
            None => {
                if !self.cells.is_in_one_piece(rows) {
                    budget.admit(Self::bytes_for(self.ty, rows))?;
                }
                (self.cells.in_one_piece(rows), self.validity.copied(rows), None, false)
            }
            Some(heap) => {
                let gathered = self.gather(heap, rows, freezing)?;
                let Gathered { cells, validity, heap, is_dictionary } = gathered;
                (cells, validity, Some(heap), is_dictionary)
            }
        };
        let mut bits = Vec::with_capacity(rows.div_ceil(64));
        validity.copy(rows, &mut bits);
        let strings = heap.as_ref().map_or_else(Vec::new, |heap| heap.share_all(guard));
        // SAFETY: nobody else has these cells, or nobody stores to them any more once the array is read:
        // before it is published nobody reads it, and then [F1] of `freeze` holds.
        let buffer = unsafe { piece.as_buffer(rows * self.width) };
        let array = match self.ty {
            // A bit is made of each cell at once, beside writers whom the freezer gives way to.
            ColumnType::Bool => {
                let cells = piece.as_u8();
                let is_true = |slot: usize| cells[slot].load(Ordering::Relaxed) != 0;
                booleans(is_true, nulls_of(bits, rows), rows)
            }
            // SAFETY: views were validated and lie in the chunks of their heap, which are all there.
            _ => unsafe { array_of(self.ty, buffer, bits, rows, strings) },
        };
        let frozen = Some(Box::new(Frozen { array, stats: OnceLock::new(), is_dictionary }));
        let cells = Cells::of(piece, there, self.width, Self::beside_bytes(self.ty), budget);
        Ok(Column { cells, validity, heap: heap.map(Arc::new), frozen, ..self.described() })
    }

    /// A hot copy for so many rows. Strings are shared: who refers to which is counted from now on.
    pub fn thaw(&self, rows: usize, budget: &Arc<Budget>, guard: &Guard) -> Column {
        let frozen = self.frozen().expect("a frozen column is thawed").array.len();
        let (piece, there) = self.cells.copied(frozen);
        let cells = Cells::of(piece, there, self.width, Self::beside_bytes(self.ty), budget);
        let hot = Column {
            cells,
            validity: self.validity.copied(frozen),
            heap: self.heap.clone(),
            frozen: None,
            ..self.described()
        };
        if let Some(heap) = &hot.heap {
            let mut state = heap.latch.lock();
            heap.recount(&mut state, guard, &mut |refer| {
                hot.long_views(|_, lo, hi| refer(lo, hi));
            });
        }
        hot.grow(rows);
        hot
    }

    /// A column with the same description, without cells.
    fn described(&self) -> Column {
        Column {
            id: self.id,
            ty: self.ty,
            missing: self.missing.clone(),
            width: self.width,
            cells: Cells::new(self.width, 0, self.cells.budget()),
            validity: Bits::default(),
            heap: None,
            frozen: None,
        }
    }

    /// The views and strings of the first rows, in a heap of their own: what is dead stays behind. A string
    /// that has a chunk for itself is shared.
    fn gather(
        &self,
        heap: &Heap,
        rows: usize,
        freezing: &Freezing<'_>,
    ) -> Result<Gathered, EngineError> {
        let &Freezing { budget, guard, .. } = freezing;
        // The latch keeps the collector out, who clears strings of rows that are gone.
        let _latch = heap.latch.lock();
        let views =
            (0..rows).filter(|&slot| self.is_valid(slot)).map(|slot| (slot, self.get(slot)));
        let is_long = |lo: u64| lo as u32 as usize > INLINE_MAX;
        let long = views.clone().filter(|(_, (lo, _))| is_long(*lo));
        let strings = long.clone().map(|(_, (lo, hi))| heap.bytes(lo, hi, guard));
        let mut words = Words::of(strings, freezing.dictionary_of(self.id));
        let mut words_once = words.clone();
        let packed = long.filter(|(_, (lo, hi))| heap.alone(*lo, *hi, guard).is_none());
        let packed = packed.map(|(_, (lo, hi))| heap.bytes(lo, hi, guard));
        let bytes: usize = match &mut words_once {
            // Each word once.
            Some(words) => {
                packed.filter(|word| words.place(word).replace(0).is_none()).map(<[u8]>::len).sum()
            }
            None => packed.map(<[u8]>::len).sum(),
        };
        let there = whole_segments(rows);
        budget.admit(bytes + Self::bytes_for(self.ty, there))?;
        let (gathered, mut state) = Heap::with_room(Arc::clone(budget), bytes);
        let cells = Zeroed::new(piece_bytes(there, self.width), budget);
        let validity = Bits::of(&[], rows);
        for (slot, (lo, mut hi)) in views {
            if is_long(lo) {
                let bytes = heap.bytes(lo, hi, guard);
                let mut place = || match heap.alone(lo, hi, guard) {
                    Some(chunk) => gathered.adopt(&mut state, chunk),
                    None => gathered.append_packed(&mut state, bytes),
                };
                hi = match &mut words {
                    Some(words) => *words.place(bytes).get_or_insert_with(place),
                    None => place(),
                };
            }
            cells.as_u64()[2 * slot].store(lo, Ordering::Relaxed);
            cells.as_u64()[2 * slot + 1].store(hi, Ordering::Relaxed);
            validity.set(slot, true);
        }
        *gathered.latch.lock() = state;
        let is_dictionary = words.is_some();
        Ok(Gathered { cells: (cells, there), validity, heap: gathered, is_dictionary })
    }
}

/// The different strings of a column, and where each is in the new heap, once it is there.
#[derive(Clone)]
struct Words<'a>(IdMap<&'a [u8], Option<u64>>);

impl<'a> Words<'a> {
    /// None where there is to be no dictionary.
    fn of(strings: impl Iterator<Item = &'a [u8]>, dictionary: Dictionary) -> Option<Words<'a>> {
        if dictionary == Dictionary::Off {
            return None;
        }
        let mut words = IdMap::default();
        for (seen, bytes) in strings.enumerate() {
            words.insert(bytes, None);
            let is_too_much = seen >= SAMPLE && words.len() * STRINGS_PER_WORD > seen;
            if dictionary == Dictionary::Auto && is_too_much {
                return None;
            }
        }
        (!words.is_empty()).then_some(Words(words))
    }

    fn place(&mut self, word: &[u8]) -> &mut Option<u64> {
        self.0.get_mut(word).expect("every string was entered")
    }
}

/// Bounds of the values of a frozen column. -0 and 0 are one value to SQL: as a bound each is the wider.
fn stats_of(ty: ColumnType, array: &ArrayRef) -> ColumnStats {
    let counted =
        ColumnStats { rows: array.len(), nulls: array.null_count(), min: None, max: None };
    let bounds = match ty {
        ColumnType::Bool => bounds(array.as_boolean().iter().flatten(), Value::Bool),
        ColumnType::Int16 => primitive::<Int16Type>(array, Value::Int16),
        ColumnType::Int32 => primitive::<Int32Type>(array, Value::Int32),
        ColumnType::Date => primitive::<Date32Type>(array, Value::Date),
        ColumnType::Int64 => primitive::<Int64Type>(array, Value::Int64),
        ColumnType::Timestamp => primitive::<TimestampMicrosecondType>(array, Value::Timestamp),
        ColumnType::TimestampTz => primitive::<TimestampMicrosecondType>(array, Value::TimestampTz),
        ColumnType::Decimal { .. } => primitive::<Decimal128Type>(array, Value::Decimal),
        ColumnType::Float32 => {
            // The order of bits turned like this is the total order of numbers.
            let turned = |bits: i32| bits ^ (((bits >> 31) as u32) >> 1) as i32;
            let values = array.as_primitive::<Float32Type>().iter().flatten();
            let bounds = bounds(values.map(|v| turned(v.to_bits() as i32)), turned);
            bounds.map(|(min, max)| {
                let (min, max) = (f32::from_bits(min as u32), f32::from_bits(max as u32));
                (Value::Float32(if min == 0.0 { -0.0 } else { min }), Value::Float32(max + 0.0))
            })
        }
        ColumnType::Float64 => {
            let turned = |bits: i64| bits ^ (((bits >> 63) as u64) >> 1) as i64;
            let values = array.as_primitive::<Float64Type>().iter().flatten();
            let bounds = bounds(values.map(|v| turned(v.to_bits() as i64)), turned);
            bounds.map(|(min, max)| {
                let (min, max) = (f64::from_bits(min as u64), f64::from_bits(max as u64));
                (Value::Float64(if min == 0.0 { -0.0 } else { min }), Value::Float64(max + 0.0))
            })
        }
        ColumnType::Text => {
            let (min, max) = bounds(array.as_string_view().iter().flatten(), |text| text).unzip();
            let min = min.map(|min| Value::text(&min[..min.floor_char_boundary(BOUND_BYTES)]));
            return ColumnStats { min, max: max.and_then(text_above).map(Value::text), ..counted };
        }
        ColumnType::Bytes => {
            let (min, max) = bounds(array.as_binary_view().iter().flatten(), |b| b).unzip();
            let min = min.map(|min| Value::Bytes(min[..min.len().min(BOUND_BYTES)].into()));
            let max = max.and_then(bytes_above).map(|max| Value::Bytes(max.into()));
            return ColumnStats { min, max, ..counted };
        }
        ColumnType::Time => primitive::<Time64MicrosecondType>(array, Value::Time),
        // Arrow's order of their bytes is not theirs, and a bound has to be one of them: no bounds.
        ColumnType::Interval | ColumnType::Numeric => None,
        ColumnType::Uuid => {
            let uuid = |bytes: &[u8]| Value::Uuid(bytes.try_into().expect("16 bytes a cell"));
            bounds(array.as_fixed_size_binary().iter().flatten(), uuid)
        }
    };
    let (min, max) = bounds.unzip();
    ColumnStats { min, max, ..counted }
}

/// A short text that no text is below which `max` is above; `None` if there is none.
fn text_above(max: &str) -> Option<String> {
    if max.len() <= BOUND_BYTES {
        return Some(max.to_owned());
    }
    let mut short = max[..max.floor_char_boundary(BOUND_BYTES)].to_owned();
    while let Some(last) = short.pop() {
        // Behind the last character before the surrogates comes the first one behind them.
        let next = (last as u32 + 1..=char::MAX as u32).find_map(char::from_u32);
        if let Some(next) = next {
            short.push(next);
            return Some(short);
        }
    }
    None
}

/// The same of bytes.
fn bytes_above(max: &[u8]) -> Option<Vec<u8>> {
    if max.len() <= BOUND_BYTES {
        return Some(max.to_owned());
    }
    let short = &max[..BOUND_BYTES];
    let last = short.iter().rposition(|byte| *byte < u8::MAX)?;
    let mut above = short[..=last].to_owned();
    above[last] += 1;
    Some(above)
}

fn primitive<T: ArrowPrimitiveType<Native: Ord>>(
    array: &ArrayRef,
    value: impl Fn(T::Native) -> Value,
) -> Option<(Value, Value)> {
    let array = array.as_primitive::<T>();
    match array.nulls() {
        None => bounds(array.values().iter().copied(), value),
        Some(_) => bounds(array.iter().flatten(), value),
    }
}

/// The least and the greatest value.
fn bounds<T: Copy + Ord, V>(
    mut values: impl Iterator<Item = T>,
    value: impl Fn(T) -> V,
) -> Option<(V, V)> {
    let first = values.next()?;
    let (min, max) = values.fold((first, first), |(min, max), v| (min.min(v), max.max(v)));
    Some((value(min), value(max)))
}

/// About how many different values there are.
fn distinct_of(ty: ColumnType, array: &ArrayRef) -> usize {
    let mut sketch = Sketch::new();
    match array.data_type() {
        DataType::BinaryView if ty == ColumnType::Numeric => {
            sketch.add_all(array.as_binary_view().iter().map(|v| v.map(numeric::order)));
        }
        DataType::Boolean => sketch.add_all(array.as_boolean().iter()),
        DataType::Utf8View => sketch.add_all(array.as_string_view().iter()),
        DataType::BinaryView => sketch.add_all(array.as_binary_view().iter()),
        DataType::FixedSizeBinary(_) => sketch.add_all(array.as_fixed_size_binary().iter()),
        ty => {
            let width = ty.primitive_width().expect("every other type is of numbers");
            let data = array.to_data();
            let cells = data.buffers()[0][data.offset() * width..].chunks_exact(width);
            let cells = cells.take(array.len()).enumerate();
            sketch.add_all(cells.map(|(slot, cell)| array.is_valid(slot).then_some(cell)));
        }
    }
    sketch.distinct().min(array.len() - array.null_count())
}

/// Linear counting (Whang et al., TODS 1990): how many of its bits values have set says about how many
/// different ones there were.
struct Sketch(Box<[u64; SKETCH_BITS / 64]>);

impl Sketch {
    fn new() -> Sketch {
        Sketch(Box::new([0; SKETCH_BITS / 64]))
    }

    fn add_all(&mut self, values: impl Iterator<Item = Option<impl Hash>>) {
        let hasher = foldhash::fast::FixedState::default();
        for value in values.flatten() {
            let bit = hasher.hash_one(value) as usize % SKETCH_BITS;
            self.0[bit / 64] |= 1 << (bit % 64);
        }
    }

    fn distinct(&self) -> usize {
        let set: usize = self.0.iter().map(|word| word.count_ones() as usize).sum();
        let bits = SKETCH_BITS as f64;
        (-bits * ((bits - set as f64) / bits).ln()).round() as usize
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn what_bounds_a_long_string_is_short_and_not_below_it() {
        let of_length = |end: &str| format!("{}{end}", "a".repeat(BOUND_BYTES - end.len()));
        let long = |beginning: &str| format!("{beginning} and so on");
        assert_eq!(text_above("short").as_deref(), Some("short"));
        let cases = [
            ("a", "b"),
            ("\u{d7ff}", "\u{e000}"),
            ("é", "ê"),
            ("c\u{10ffff}", "d"),
            ("\u{10ffff}\u{10ffff}", ""),
        ];
        for (end, next) in cases {
            let (below, above) = (long(&of_length(end)), text_above(&long(&of_length(end))));
            let above = above.expect("there is a greater one");
            assert!(above > below && above.len() <= BOUND_BYTES + 4, "{above}");
            assert!(next.is_empty() || above.ends_with(next), "{above}");
        }
        assert_eq!(text_above(&"\u{10ffff}".repeat(40)), None);
        assert_eq!(bytes_above(&[7, 255]), Some(vec![7, 255]));
        assert_eq!(bytes_above(&[&[7][..], &[255; 99]].concat()), Some(vec![8]));
        assert_eq!(bytes_above(&[255; 99]), None);
    }
}
