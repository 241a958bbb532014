//! Numbers, values and types as bytes, and back.

use compact_str::CompactString;
use froglet_engine::{ColumnId, ColumnType, Interval, SpaceId, Value, numeric};

use super::Malformed;

pub(super) fn put(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

pub(super) fn put_signed(out: &mut Vec<u8>, number: i64) {
    put(out, ((number << 1) ^ (number >> 63)) as u64);
}

pub(super) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

pub(super) fn put_type(out: &mut Vec<u8>, ty: ColumnType) {
    let tag = match ty {
        ColumnType::Bool => 1,
        ColumnType::Int16 => 2,
        ColumnType::Int32 => 3,
        ColumnType::Int64 => 4,
        ColumnType::Float32 => 5,
        ColumnType::Float64 => 6,
        ColumnType::Decimal { precision, scale } => {
            out.extend_from_slice(&[7, precision, scale as u8]);
            return;
        }
        ColumnType::Text => 8,
        ColumnType::Bytes => 9,
        ColumnType::Date => 10,
        ColumnType::Timestamp => 11,
        ColumnType::TimestampTz => 12,
        ColumnType::Uuid => 13,
        ColumnType::Time => 14,
        ColumnType::Interval => 15,
        ColumnType::Numeric => 16,
    };
    out.push(tag);
}

/// Appends a value.
pub fn put_value(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Null => out.push(0),
        Value::Bool(v) => out.push(1 + u8::from(*v)),
        Value::Int16(v) => put_tagged(out, 3, i64::from(*v)),
        Value::Int32(v) => put_tagged(out, 4, i64::from(*v)),
        Value::Int64(v) => put_tagged(out, 5, *v),
        Value::Float32(v) => {
            out.push(6);
            out.extend_from_slice(&v.to_le_bytes());
        }
        Value::Float64(v) => {
            out.push(7);
            out.extend_from_slice(&v.to_le_bytes());
        }
        Value::Decimal(v) => match i64::try_from(*v) {
            Ok(small) => put_tagged(out, 8, small),
            Err(_) => {
                out.push(9);
                out.extend_from_slice(&v.to_le_bytes());
            }
        },
        Value::Text(v) => {
            out.push(10);
            put_bytes(out, v.as_bytes());
        }
        Value::Bytes(v) => {
            out.push(11);
            put_bytes(out, v);
        }
        Value::Date(v) => put_tagged(out, 12, i64::from(*v)),
        Value::Timestamp(v) => put_tagged(out, 13, *v),
        Value::TimestampTz(v) => put_tagged(out, 14, *v),
        Value::Uuid(v) => {
            out.push(15);
            out.extend_from_slice(v);
        }
        Value::Time(v) => put_tagged(out, 16, *v),
        Value::Interval(v) => {
            put_tagged(out, 17, i64::from(v.months));
            put_signed(out, i64::from(v.days));
            put_signed(out, v.us);
        }
        Value::Numeric(v) => {
            out.push(18);
            put_bytes(out, v);
        }
    }
}

pub(super) fn put_tagged(out: &mut Vec<u8>, tag: u8, number: i64) {
    out.push(tag);
    put_signed(out, number);
}

/// Bytes being read.
#[derive(Debug)]
pub(super) struct Input<'a> {
    pub bytes: &'a [u8],
    pub at: usize,
}

impl<'a> Input<'a> {
    pub fn fail(&self, what: String) -> Malformed {
        Malformed { offset: self.at, what }
    }

    pub fn is_empty(&self) -> bool {
        self.at == self.bytes.len()
    }

    pub fn rest(&mut self) -> &'a [u8] {
        let rest = &self.bytes[self.at..];
        self.at = self.bytes.len();
        rest
    }

    pub fn take(&mut self, n: usize) -> Result<&'a [u8], Malformed> {
        let left = &self.bytes[self.at..];
        let Some(taken) = left.get(..n) else {
            return Err(self.fail(format!("{n} bytes expected, {} left", left.len())));
        };
        self.at += n;
        Ok(taken)
    }

    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        Ok(self.take(N)?.try_into().expect("as many bytes as asked for"))
    }

    pub fn byte(&mut self) -> Result<u8, Malformed> {
        Ok(self.take(1)?[0])
    }

    pub fn number(&mut self) -> Result<u64, Malformed> {
        let mut number = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7F) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(self.fail("a number of more than ten bytes".into()))
    }

    pub fn signed(&mut self) -> Result<i64, Malformed> {
        let number = self.number()?;
        Ok((number >> 1) as i64 ^ -((number & 1) as i64))
    }

    pub fn narrow<T: TryFrom<i64>>(&mut self) -> Result<T, Malformed> {
        let number = self.signed()?;
        T::try_from(number).map_err(|_| self.fail(format!("{number} does not fit its type")))
    }

    pub fn small(&mut self) -> Result<u32, Malformed> {
        let number = self.number()?;
        u32::try_from(number).map_err(|_| self.fail(format!("{number} is more than 32 bits")))
    }

    /// A number of things that follow; each takes at least a byte.
    pub fn count(&mut self) -> Result<usize, Malformed> {
        let n = self.number()?;
        let left = self.bytes.len() - self.at;
        usize::try_from(n)
            .ok()
            .filter(|&n| n <= left)
            .ok_or_else(|| self.fail(format!("{n} things expected in {left} bytes")))
    }

    pub fn space(&mut self) -> Result<SpaceId, Malformed> {
        Ok(SpaceId(self.small()?))
    }

    pub fn spaces(&mut self) -> Result<Vec<SpaceId>, Malformed> {
        (0..self.count()?).map(|_| self.space()).collect()
    }

    pub fn column(&mut self) -> Result<ColumnId, Malformed> {
        Ok(ColumnId(self.small()?))
    }

    pub fn counted(&mut self) -> Result<&'a [u8], Malformed> {
        let n = self.count()?;
        self.take(n)
    }

    pub fn ty(&mut self) -> Result<ColumnType, Malformed> {
        Ok(match self.byte()? {
            1 => ColumnType::Bool,
            2 => ColumnType::Int16,
            3 => ColumnType::Int32,
            4 => ColumnType::Int64,
            5 => ColumnType::Float32,
            6 => ColumnType::Float64,
            7 => match (self.byte()?, self.byte()? as i8) {
                (precision @ 1..=38, scale) => ColumnType::Decimal { precision, scale },
                (precision, _) => {
                    return Err(self.fail(format!("{precision} digits are more than 38 or none")));
                }
            },
            8 => ColumnType::Text,
            9 => ColumnType::Bytes,
            10 => ColumnType::Date,
            11 => ColumnType::Timestamp,
            12 => ColumnType::TimestampTz,
            13 => ColumnType::Uuid,
            14 => ColumnType::Time,
            15 => ColumnType::Interval,
            16 => ColumnType::Numeric,
            tag => return Err(self.fail(format!("column type {tag} is unknown"))),
        })
    }

    pub fn skip_value(&mut self) -> Result<(), Malformed> {
        match self.byte()? {
            0..=2 => {}
            3..=5 | 8 | 12..=14 | 16 => drop(self.number()?),
            6 => drop(self.take(4)?),
            7 => drop(self.take(8)?),
            9 | 15 => drop(self.take(16)?),
            10 | 11 | 18 => drop(self.counted()?),
            17 => {
                for _ in 0..3 {
                    self.number()?;
                }
            }
            tag => return Err(self.fail(format!("value tag {tag} is unknown"))),
        }
        Ok(())
    }

    pub fn value(&mut self) -> Result<Value, Malformed> {
        Ok(match self.byte()? {
            0 => Value::Null,
            1 => Value::Bool(false),
            2 => Value::Bool(true),
            3 => Value::Int16(self.narrow()?),
            4 => Value::Int32(self.narrow()?),
            5 => Value::Int64(self.signed()?),
            6 => Value::Float32(f32::from_le_bytes(self.array()?)),
            7 => Value::Float64(f64::from_le_bytes(self.array()?)),
            8 => Value::Decimal(i128::from(self.signed()?)),
            9 => Value::Decimal(i128::from_le_bytes(self.array()?)),
            10 => {
                let text = std::str::from_utf8(self.counted()?);
                let text = text.map_err(|e| self.fail(format!("text is not UTF-8: {e}")))?;
                Value::Text(CompactString::new(text))
            }
            11 => Value::Bytes(self.counted()?.into()),
            12 => Value::Date(self.narrow()?),
            13 => Value::Timestamp(self.signed()?),
            14 => Value::TimestampTz(self.signed()?),
            15 => Value::Uuid(self.array()?),
            16 => Value::Time(self.signed()?),
            17 => Value::Interval(Interval {
                months: self.narrow()?,
                days: self.narrow()?,
                us: self.signed()?,
            }),
            18 => {
                let bytes = self.counted()?;
                if !numeric::is_well_formed(bytes) {
                    return Err(self.fail(format!("{bytes:02x?} is no number")));
                }
                Value::Numeric(bytes.into())
            }
            tag => return Err(self.fail(format!("value tag {tag} is unknown"))),
        })
    }
}
