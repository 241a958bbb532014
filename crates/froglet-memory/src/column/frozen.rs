//! The frozen form of a column: the same cells, as an Arrow array that nobody stores to any more.
//!
//! ```text
//!              freeze: cells are shared, strings are gathered into one chunk
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
    Int64Type, TimestampMicrosecondType,
};
use arrow_array::{Array, ArrayRef};
use crossbeam_epoch::Guard;
use froglet_engine::id::ROWS_PER_BLOCK;
use froglet_engine::{ColumnId, ColumnStats, ColumnType, Dictionary, EngineError, IdMap, Value};

use super::{Column, set_bit};
use crate::arrow::{array_of, booleans, nulls_of};
use crate::heap::{Heap, INLINE_MAX};
use crate::memory::{Budget, Zeroed};
use crate::sync::atomic::{AtomicU64, Ordering};

/// Bits of the sketch that distinct values are counted with.
const SKETCH_BITS: usize = 4 * ROWS_PER_BLOCK;

/// What a frozen column has beside its cells.
#[derive(Debug)]
pub(crate) struct Frozen {
    /// Every row of the block up to the last that was handed out when it was frozen.
    pub array: ArrayRef,
    /// Found when somebody asks, who wants to leave blocks out.
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
    cells: Zeroed,
    validity: Box<[AtomicU64]>,
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

    /// The first `rows` cells frozen. The caller sees to it that nobody stores to them meanwhile, but
    /// the collector to forget strings; or that the column is thrown away, and nobody reads it.
    pub fn freeze(&self, rows: usize, freezing: &Freezing<'_>) -> Result<Column, EngineError> {
        let guard = freezing.guard;
        let (cells, validity, heap, is_dictionary) = match &self.heap {
            None => (self.cells.share(), self.copied_validity(), None, false),
            Some(heap) => {
                let gathered = self.gather(heap, rows, freezing)?;
                let Gathered { cells, validity, heap, is_dictionary } = gathered;
                (cells, validity, Some(heap), is_dictionary)
            }
        };
        let bits: Vec<u64> = validity.iter().map(|word| word.load(Ordering::Relaxed)).collect();
        let strings = heap.as_ref().map_or_else(Vec::new, |heap| heap.share_all(guard));
        // SAFETY: nobody else has these cells, or nobody stores to them any more once the array is read:
        // before it is published nobody reads it, and then [F1] of `freeze` holds.
        let buffer = unsafe { cells.as_buffer(rows * self.width) };
        let array = match self.ty {
            // A bit is made of each cell at once, beside writers whom the freezer gives way to.
            ColumnType::Bool => {
                let cells = self.cells.as_u8();
                let is_true = |slot: usize| cells[slot].load(Ordering::Relaxed) != 0;
                booleans(is_true, nulls_of(bits, rows), rows)
            }
            // SAFETY: views were validated and lie in the chunks of their heap, which are all there.
            _ => unsafe { array_of(self.ty, buffer, bits, rows, strings) },
        };
        let frozen = Some(Box::new(Frozen { array, stats: OnceLock::new(), is_dictionary }));
        Ok(Column { cells, validity, heap: heap.map(Arc::new), frozen, ..self.same() })
    }

    /// A hot copy.
    pub fn thaw(&self) -> Column {
        let rows = self.frozen().expect("a frozen column is thawed").array.len();
        let cells = Zeroed::new(ROWS_PER_BLOCK * self.width);
        // Cells of eight bytes or less are copied by words; what is behind the rows is zero.
        let words = (rows * self.width).div_ceil(8);
        for (to, from) in cells.as_u64()[..words].iter().zip(self.cells.as_u64()) {
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        Column {
            cells,
            validity: self.copied_validity(),
            heap: self.heap.clone(),
            frozen: None,
            ..self.same()
        }
    }

    /// A column with the same description.
    fn same(&self) -> Column {
        Column {
            id: self.id,
            ty: self.ty,
            missing: self.missing.clone(),
            width: self.width,
            cells: self.cells.share(),
            validity: Box::default(),
            heap: None,
            frozen: None,
        }
    }

    fn copied_validity(&self) -> Box<[AtomicU64]> {
        self.validity.iter().map(|word| AtomicU64::new(word.load(Ordering::Relaxed))).collect()
    }

    /// The views and strings of the first rows, in a heap of one chunk: what is dead stays behind.
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
        let strings = long.map(|(_, (lo, hi))| heap.bytes(lo, hi, guard));
        let mut words = Words::of(strings.clone(), freezing.dictionary_of(self.id));
        let bytes = words.as_ref().map_or_else(|| strings.map(<[u8]>::len).sum(), Words::bytes);
        budget.admit(bytes)?;
        let (gathered, mut state) = Heap::with_room(Arc::clone(budget), bytes);
        let cells = Zeroed::new(ROWS_PER_BLOCK * self.width);
        let validity = self.validity.iter().map(|_| AtomicU64::new(0)).collect::<Box<[_]>>();
        for (slot, (lo, mut hi)) in views {
            if is_long(lo) {
                let bytes = heap.bytes(lo, hi, guard);
                let mut append = || gathered.append(&mut state, bytes);
                hi = match &mut words {
                    Some(words) => *words.place(bytes).get_or_insert_with(append),
                    None => append(),
                };
            }
            cells.as_u64()[2 * slot].store(lo, Ordering::Relaxed);
            cells.as_u64()[2 * slot + 1].store(hi, Ordering::Relaxed);
            set_bit(&validity, slot, true);
        }
        *gathered.latch.lock() = state;
        Ok(Gathered { cells, validity, heap: gathered, is_dictionary: words.is_some() })
    }
}

/// The different strings of a column, and where each is in the new heap, once it is there.
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

    fn bytes(&self) -> usize {
        self.0.keys().map(|word| word.len()).sum()
    }

    fn place(&mut self, word: &[u8]) -> &mut Option<u64> {
        self.0.get_mut(word).expect("every string was entered")
    }
}

/// Bounds of the values of a frozen column. -0 and 0 are one value to SQL: as a bound each is the wider.
fn stats_of(ty: ColumnType, array: &ArrayRef) -> ColumnStats {
    let mut sketch = Sketch::new();
    let bounds = match ty {
        ColumnType::Bool => sketch.bounds(array.as_boolean().iter(), Ord::cmp, Value::Bool),
        ColumnType::Int16 => sketch.primitive::<Int16Type>(array, Value::Int16),
        ColumnType::Int32 => sketch.primitive::<Int32Type>(array, Value::Int32),
        ColumnType::Date => sketch.primitive::<Date32Type>(array, Value::Date),
        ColumnType::Int64 => sketch.primitive::<Int64Type>(array, Value::Int64),
        ColumnType::Timestamp => {
            sketch.primitive::<TimestampMicrosecondType>(array, Value::Timestamp)
        }
        ColumnType::TimestampTz => {
            sketch.primitive::<TimestampMicrosecondType>(array, Value::TimestampTz)
        }
        ColumnType::Decimal { .. } => sketch.primitive::<Decimal128Type>(array, Value::Decimal),
        ColumnType::Float32 => {
            let bits = array.as_primitive::<Float32Type>().iter().map(|v| v.map(f32::to_bits));
            let order = |a: &u32, b: &u32| f32::from_bits(*a).total_cmp(&f32::from_bits(*b));
            let bounds = sketch.bounds(bits, order, f32::from_bits);
            bounds.map(|(min, max)| {
                let (min, max) = (if min == 0.0 { -0.0 } else { min }, max + 0.0);
                (Value::Float32(min), Value::Float32(max))
            })
        }
        ColumnType::Float64 => {
            let bits = array.as_primitive::<Float64Type>().iter().map(|v| v.map(f64::to_bits));
            let order = |a: &u64, b: &u64| f64::from_bits(*a).total_cmp(&f64::from_bits(*b));
            let bounds = sketch.bounds(bits, order, f64::from_bits);
            bounds.map(|(min, max)| {
                let (min, max) = (if min == 0.0 { -0.0 } else { min }, max + 0.0);
                (Value::Float64(min), Value::Float64(max))
            })
        }
        ColumnType::Text => sketch.bounds(array.as_string_view().iter(), Ord::cmp, Value::text),
        ColumnType::Bytes => {
            sketch.bounds(array.as_binary_view().iter(), Ord::cmp, |b| Value::Bytes(b.into()))
        }
        ColumnType::Uuid => {
            let uuid = |bytes: &[u8]| Value::Uuid(bytes.try_into().expect("16 bytes a cell"));
            sketch.bounds(array.as_fixed_size_binary().iter(), Ord::cmp, uuid)
        }
    };
    let (min, max) = bounds.unzip();
    let values = array.len() - array.null_count();
    ColumnStats {
        rows: array.len(),
        nulls: array.null_count(),
        min,
        max,
        distinct: sketch.distinct().min(values),
    }
}

/// Linear counting (Whang et al., TODS 1990): how many of its bits values have set says about how many
/// different ones there were.
struct Sketch(Box<[u64; SKETCH_BITS / 64]>);

impl Sketch {
    fn new() -> Sketch {
        Sketch(Box::new([0; SKETCH_BITS / 64]))
    }

    fn primitive<T: ArrowPrimitiveType<Native: Ord + Hash>>(
        &mut self,
        array: &ArrayRef,
        value: impl Fn(T::Native) -> Value,
    ) -> Option<(Value, Value)> {
        self.bounds(array.as_primitive::<T>().iter(), Ord::cmp, value)
    }

    /// The least and the greatest value; each is counted.
    fn bounds<T: Copy + Hash, V>(
        &mut self,
        values: impl Iterator<Item = Option<T>>,
        order: impl Fn(&T, &T) -> std::cmp::Ordering,
        value: impl Fn(T) -> V,
    ) -> Option<(V, V)> {
        let hasher = foldhash::fast::FixedState::default();
        let mut bounds = None::<(T, T)>;
        for v in values.flatten() {
            let bit = hasher.hash_one(v) as usize % SKETCH_BITS;
            self.0[bit / 64] |= 1 << (bit % 64);
            bounds = Some(match bounds {
                None => (v, v),
                Some((min, max)) => (
                    if order(&v, &min).is_lt() { v } else { min },
                    if order(&v, &max).is_gt() { v } else { max },
                ),
            });
        }
        bounds.map(|(min, max)| (value(min), value(max)))
    }

    fn distinct(&self) -> usize {
        let set: usize = self.0.iter().map(|word| word.count_ones() as usize).sum();
        let bits = SKETCH_BITS as f64;
        (-bits * ((bits - set as f64) / bits).ln()).round() as usize
    }
}
