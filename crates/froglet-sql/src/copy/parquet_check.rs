//! What the parquet crate takes a file's word for, looked at first.
//!
//! Lists in the footer and dictionaries of pages say how long they are, and memory is allocated for that many
//! elements before the first is read. An allocation that fails ends the process and cannot be caught, so a few
//! flipped bits would be enough. Here the Thrift structures are walked without keeping anything: every length
//! must fit into the bytes that are there.
//!
//! ```text
//!   footer   … FileMetaData │ length u32 │ "PAR1"
//!   page     PageHeader { 1 type, 2 uncompressed size, 3 compressed size, 7 { 1 values } } │ data
//! ```
//! Thrift's compact protocol: a struct is fields until a zero byte; a field is a byte (id delta, type) and a
//! value; integers are zigzag varints; a list is a byte (size, type) and its elements.

use ::parquet::file::metadata::ColumnChunkMetaData;
use ::parquet::file::reader::Length;

use super::parquet::Chunks;

/// The longest footer.
const FOOTER_BYTES_MAX: usize = 64 << 20;
/// Elements of a list in a footer: row groups, columns.
const LIST_MAX: u64 = 1 << 20;
/// The longest page, uncompressed.
const PAGE_BYTES_MAX: i64 = 512 << 20;
/// As much of a page's header as is read at first, and at most.
const HEADER_BYTES: usize = 4 << 10;
const HEADER_BYTES_MAX: usize = 8 << 20;
/// Structs within structs.
const DEPTH_MAX: usize = 32;

type Checked<T> = Result<T, String>;

/// Whether the footer's lengths are true.
pub(super) fn footer(chunks: &Chunks) -> Checked<()> {
    let end = chunks.len();
    let start = end.checked_sub(12).ok_or("it is too short")?;
    let tail = chunks.read(start + 4, 8).map_err(|e| e.to_string())?;
    let (length, magic) = tail.split_at(4);
    if magic != b"PAR1" {
        return Err(match magic == b"PARE" {
            true => "it is encrypted".to_owned(),
            false => "it does not end with \"PAR1\"".to_owned(),
        });
    }
    let length = u32::from_le_bytes([length[0], length[1], length[2], length[3]]) as usize;
    if length > FOOTER_BYTES_MAX || length as u64 > start {
        return Err(format!("its footer cannot have {length} bytes"));
    }
    let bytes = chunks.read(end - 8 - length as u64, length).map_err(|e| e.to_string())?;
    let mut walk = Walk { bytes: &bytes, at: 0 };
    walk.structure(0, &mut |_, _, _| {}).ok_or_else(|| "its footer is damaged".to_owned())
}

/// Whether the pages of a column chunk are where it says, and as long as they say.
pub(super) fn pages(chunks: &Chunks, chunk: &ColumnChunkMetaData) -> Checked<()> {
    let first = chunk.dictionary_page_offset().unwrap_or_else(|| chunk.data_page_offset());
    let first = first.min(chunk.data_page_offset());
    let start = u64::try_from(first).map_err(|_| format!("it begins at byte {first}"))?;
    let length = chunk.compressed_size();
    let end = u64::try_from(length).ok().and_then(|length| start.checked_add(length));
    let end = end.filter(|end| *end <= chunks.len());
    let end = end.ok_or_else(|| format!("it has {length} bytes from byte {start} on"))?;
    let mut at = start;
    while at < end {
        at = page(chunks, at, end)?;
    }
    Ok(())
}

/// Looks at the page that begins here; where the next does.
fn page(chunks: &Chunks, at: u64, end: u64) -> Checked<u64> {
    let wrong = |why: &str| format!("page at byte {at}: {why}");
    let mut limit = HEADER_BYTES;
    loop {
        let length = usize::try_from(end - at).unwrap_or(usize::MAX).min(limit);
        let bytes = chunks.read(at, length).map_err(|e| wrong(&e.to_string()))?;
        let mut header = Header::default();
        let mut walk = Walk { bytes: &bytes, at: 0 };
        let whole = walk.structure(0, &mut |depth, path, value| header.take(depth, path, value));
        if whole.is_some() {
            header.check().map_err(|why| wrong(&why))?;
            let next = at + walk.at as u64 + header.compressed.unsigned_abs();
            return if next <= end { Ok(next) } else { Err(wrong("it is longer than its column")) };
        }
        if (length as u64) == end - at || limit >= HEADER_BYTES_MAX {
            return Err(wrong("its header is damaged"));
        }
        limit *= 16;
    }
}

#[derive(Default)]
struct Header {
    uncompressed: i64,
    compressed: i64,
    dictionary_values: i64,
}

impl Header {
    /// An integer field: `path` is the field of the outer struct, `field` that of this one.
    fn take(&mut self, depth: usize, (path, field): (i64, i64), value: i64) {
        match (depth, path, field) {
            (0, _, 2) => self.uncompressed = value,
            (0, _, 3) => self.compressed = value,
            (1, 7, 1) => self.dictionary_values = value,
            _ => {}
        }
    }

    fn check(&self) -> Checked<()> {
        if !(0..=PAGE_BYTES_MAX).contains(&self.uncompressed) || self.compressed < 0 {
            return Err(format!(
                "it cannot have {} bytes, compressed {}",
                self.uncompressed, self.compressed
            ));
        }
        // A value of a dictionary takes at least a byte.
        if !(0..=self.uncompressed).contains(&self.dictionary_values) {
            return Err(format!("{} values in its dictionary", self.dictionary_values));
        }
        Ok(())
    }
}

/// A walk through Thrift's compact protocol. Nothing: the bytes are not that, or end too early.
struct Walk<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// What is told of integer fields: the depth, the outer and the own field, the value.
type Visit<'v> = &'v mut dyn FnMut(usize, (i64, i64), i64);

impl Walk<'_> {
    fn structure(&mut self, depth: usize, visit: Visit<'_>) -> Option<()> {
        self.fields(depth, 0, visit)
    }

    fn fields(&mut self, depth: usize, outer: i64, visit: Visit<'_>) -> Option<()> {
        if depth > DEPTH_MAX {
            return None;
        }
        let mut field = 0_i64;
        loop {
            let head = self.byte()?;
            if head == 0 {
                return Some(());
            }
            field = match head >> 4 {
                0 => self.integer()?,
                delta => field.checked_add(i64::from(delta))?,
            };
            match head & 15 {
                // A boolean field's value is in its type.
                1 | 2 => {}
                4..=6 => {
                    let value = self.integer()?;
                    visit(depth, (outer, field), value);
                }
                12 => self.fields(depth + 1, field, visit)?,
                other => self.value(other, depth, visit)?,
            }
        }
    }

    fn value(&mut self, ty: u8, depth: usize, visit: Visit<'_>) -> Option<()> {
        match ty {
            1..=3 => self.skip(1),
            4..=6 => self.integer().map(drop),
            7 => self.skip(8),
            8 => {
                let length = self.varint()?;
                self.skip(usize::try_from(length).ok()?)
            }
            9 | 10 => self.list(depth, visit),
            // What is in a list's structs is nobody's field.
            12 => self.fields(depth + 1, i64::MIN, visit),
            _ => None,
        }
    }

    fn list(&mut self, depth: usize, visit: Visit<'_>) -> Option<()> {
        if depth > DEPTH_MAX {
            return None;
        }
        let head = self.byte()?;
        let size = match head >> 4 {
            15 => self.varint()?,
            size => u64::from(size),
        };
        if size > LIST_MAX || size > (self.bytes.len() - self.at) as u64 {
            return None;
        }
        (0..size).try_for_each(|_| self.value(head & 15, depth + 1, visit))
    }

    fn byte(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    fn skip(&mut self, length: usize) -> Option<()> {
        let to = self.at.checked_add(length).filter(|to| *to <= self.bytes.len())?;
        self.at = to;
        Some(())
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 127) << shift;
            if byte < 128 {
                return Some(value);
            }
        }
        None
    }

    fn integer(&mut self) -> Option<i64> {
        let raw = self.varint()?;
        Some((raw >> 1) as i64 ^ -((raw & 1) as i64))
    }
}
