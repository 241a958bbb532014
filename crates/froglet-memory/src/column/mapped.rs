//! A column of a batch in a file, as it lies there: a frozen column whose cells nobody has copied.
//!
//! ```text
//!   file      │ validity │ cells │ strings │      64-byte aligned
//!                  │         │        │
//!                copied      └── the column's cells and its heap's only chunk
//! ```
//!
//! Booleans are bits in a file and bytes in a cell, and the last block of a space may have fewer rows than
//! its segments: these are copied.
//!
//! A checksum says that a file is what somebody wrote, not who. So what unsafe code relies on is checked
//! value by value: every view lies within its string, and texts are UTF-8. A buffer of strings is
//! decoded as one, and then a view has to begin and end between two characters of it. Numbers are as
//! `froglet_engine::numeric` says, for whoever computes with them relies on it.

use std::sync::{Arc, OnceLock};

use arrow_buffer::Buffer;
use arrow_data::ByteView;
use froglet_engine::{ColumnSpec, ColumnType, numeric};

use super::Column;
use super::frozen::Frozen;
use crate::arrow::array_of;
use crate::cells::{Bits, Cells, ROWS, piece_bytes, whole_segments};
use crate::heap::{Heap, INLINE_MAX};
use crate::ipc::IpcColumn;
use crate::memory::{Budget, Zeroed};
use crate::sync::atomic::Ordering;

const ASCII: u128 = 0x7f7f_7f7f_7f7f_7f7f_7f7f_7f7f_7f7f_7f7f;

impl Column {
    /// The column of a batch with so many rows, at most those of a block. What is wrong with it.
    pub fn mapped(
        spec: &ColumnSpec,
        found: &IpcColumn,
        rows: usize,
        budget: &Arc<Budget>,
    ) -> Result<Column, String> {
        let (ty, width) = (spec.ty, spec.ty.width());
        if rows > ROWS {
            return Err(format!("{rows} rows in one batch"));
        }
        let (values, strings) = found.buffers.split_first().ok_or("a column without cells")?;
        let bytes = if ty == ColumnType::Bool { rows.div_ceil(8) } else { rows * width };
        if values.len() < bytes {
            return Err(format!("{} bytes of cells for {rows} rows", values.len()));
        }
        let values = values.slice_with_length(0, bytes);
        let (mut heap, mut is_dictionary) = (None, false);
        if ty.is_view() {
            check_views(&values, strings, ty == ColumnType::Text)?;
            is_dictionary = long_bytes(&values) > strings.iter().map(Buffer::len).sum();
            heap = Some(Arc::new(Heap::lent(Arc::clone(budget), strings)?));
        }
        let bits = found.validity_words(rows)?;
        if ty == ColumnType::Numeric {
            check_numbers(&values, strings, &bits)?;
        }
        let validity = Bits::of(&bits, rows);
        let (piece, there) = (cells_of(ty, &values, rows, budget), whole_segments(rows));
        // SAFETY: a frozen column in the making: nobody stores to its cells.
        let buffer = unsafe { piece.as_buffer(rows * width) };
        // SAFETY: the views were checked, those of NULL cells too.
        let array = unsafe { array_of(ty, buffer, bits, rows, strings.to_vec()) };
        Ok(Column {
            id: spec.id,
            ty,
            missing: spec.missing.clone(),
            width,
            cells: Cells::of(piece, there, width, Self::beside_bytes(ty), budget),
            validity,
            heap,
            frozen: Some(Box::new(Frozen { array, stats: OnceLock::new(), is_dictionary })),
        })
    }
}

/// Bytes of the long strings of views; where there are more than in the heap, some are shared.
fn long_bytes(views: &[u8]) -> usize {
    let len = |view: &[u8]| u32::from_le_bytes([view[0], view[1], view[2], view[3]]) as usize;
    views.chunks_exact(16).map(len).filter(|len| *len > INLINE_MAX).sum()
}

/// The cells of a frozen column: the file's own bytes, if there is one for every slot of its segments.
fn cells_of(ty: ColumnType, values: &Buffer, rows: usize, budget: &Arc<Budget>) -> Zeroed {
    let there = whole_segments(rows);
    if ty != ColumnType::Bool
        && rows == there
        && let Some(lent) = Zeroed::lent(values.clone(), budget)
    {
        return lent;
    }
    let cells = Zeroed::new(piece_bytes(there, ty.width()), budget);
    if ty == ColumnType::Bool {
        for (at, cell) in cells.as_u8()[..rows].iter().enumerate() {
            cell.store(values[at / 8] >> (at % 8) & 1, Ordering::Relaxed);
        }
        return cells;
    }
    for (cell, bytes) in cells.as_u64().iter().zip(values.chunks(8)) {
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        cell.store(u64::from_le_bytes(word), Ordering::Relaxed);
    }
    cells
}

/// What is wrong with the numbers of views that were checked.
fn check_numbers(views: &[u8], strings: &[Buffer], validity: &[u64]) -> Result<(), String> {
    for (slot, view) in views.chunks_exact(16).enumerate() {
        if validity[slot / 64] >> (slot % 64) & 1 == 0 {
            continue;
        }
        let bytes: [u8; 16] = view.try_into().expect("sixteen bytes");
        let view = ByteView::from(u128::from_le_bytes(bytes));
        let (len, start) = (view.length as usize, view.offset as usize);
        let number = match len <= INLINE_MAX {
            true => &bytes[4..4 + len],
            false => &strings[view.buffer_index as usize][start..start + len],
        };
        if !numeric::is_well_formed(number) {
            return Err(format!("{number:02x?} is no number"));
        }
    }
    Ok(())
}

/// What is wrong with views into these strings.
fn check_views(views: &[u8], strings: &[Buffer], is_text: bool) -> Result<(), String> {
    let mut texts = Vec::with_capacity(strings.len());
    if is_text {
        for buffer in strings {
            texts.push(std::str::from_utf8(buffer).map_err(|e| e.to_string())?);
        }
    }
    for view in views.chunks_exact(16) {
        let bytes: [u8; 16] = view.try_into().expect("sixteen bytes");
        let view = u128::from_le_bytes(bytes);
        let len = view as u32 as usize;
        if len <= INLINE_MAX {
            let inline = view >> 32;
            let is_padded = len == INLINE_MAX || inline >> (8 * len) == 0;
            let is_decoded = !is_text
                || inline & ASCII == inline
                || std::str::from_utf8(&bytes[4..4 + len]).is_ok();
            if !is_padded || !is_decoded {
                return Err(format!("a view of {len} bytes is {view:032x}"));
            }
            continue;
        }
        let (at, start) = ((view >> 64) as u32 as usize, (view >> 96) as usize);
        let whole = strings.get(at).and_then(|buffer| buffer.get(start..start.checked_add(len)?));
        let is_whole = whole.is_some_and(|whole| whole[..4] == bytes[4..8])
            && texts.get(at).is_none_or(|text| {
                text.is_char_boundary(start) && text.is_char_boundary(start + len)
            });
        if !is_whole {
            return Err(format!("a view of {len} bytes leads to no such string"));
        }
    }
    Ok(())
}
