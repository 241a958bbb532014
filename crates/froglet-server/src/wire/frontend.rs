//! Messages of a client, borrowed from their frames.

use super::{WireError, utf8};

/// A message of a client.
#[derive(Debug, PartialEq, Eq)]
pub enum Frontend<'a> {
    /// Statements to run at once.
    Query(&'a str),
    /// Prepare a statement.
    Parse(Parse<'a>),
    /// Make a portal of a prepared statement and parameters.
    Bind(Bind<'a>),
    /// Say what a statement or portal takes and returns.
    Describe(Target<'a>),
    /// Run a portal.
    Execute {
        /// Its name.
        portal: &'a str,
        /// At most so many rows; 0 for all.
        max_rows: u32,
    },
    /// Forget a statement or portal.
    Close(Target<'a>),
    /// The end of a pipeline: the implicit transaction commits, errors are over.
    Sync,
    /// Send what there is.
    Flush,
    /// The end.
    Terminate,
    /// A piece of a COPY.
    CopyData(&'a [u8]),
    /// The COPY is complete.
    CopyDone,
    /// The COPY is given up, for this reason.
    CopyFail(&'a str),
    /// A password or SASL message, which nobody asked for.
    Password,
    /// The function call protocol, which is not supported.
    FunctionCall,
}

/// A statement to prepare.
#[derive(Debug, PartialEq, Eq)]
pub struct Parse<'a> {
    /// Its name; empty for the unnamed one.
    pub name: &'a str,
    /// Its text.
    pub query: &'a str,
    /// Type oids of its first parameters; 0 for "find out".
    pub types: Integers<'a, 4>,
}

/// A portal to make.
#[derive(Debug, PartialEq, Eq)]
pub struct Bind<'a> {
    /// Its name; empty for the unnamed one.
    pub portal: &'a str,
    /// Of this statement.
    pub statement: &'a str,
    /// Formats of the parameters: none, one for all, or one each.
    pub parameter_formats: Integers<'a, 2>,
    /// The parameters.
    pub parameters: Parameters<'a>,
    /// Formats of the result columns: none, one for all, or one each.
    pub result_formats: Integers<'a, 2>,
}

/// A prepared statement or a portal, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target<'a> {
    /// A prepared statement.
    Statement(&'a str),
    /// A portal.
    Portal(&'a str),
}

/// Big-endian integers of `N` bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Integers<'a, const N: usize>(&'a [[u8; N]]);

impl<const N: usize> Integers<'_, N> {
    /// How many.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Integers<'_, 2> {
    /// The `i`-th.
    pub fn get(&self, i: usize) -> Option<u16> {
        self.0.get(i).map(|b| u16::from_be_bytes(*b))
    }
}

impl<'a> Integers<'a, 4> {
    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = u32> + use<'a> {
        self.0.iter().map(|b| u32::from_be_bytes(*b))
    }
}

/// Parameter values as they came, checked to be as many and as long as announced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parameters<'a> {
    count: u16,
    bytes: &'a [u8],
}

impl<'a> Parameters<'a> {
    /// How many.
    pub fn len(&self) -> usize {
        usize::from(self.count)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Each value; `None` for NULL.
    pub fn iter(&self) -> impl Iterator<Item = Option<&'a [u8]>> + use<'a> {
        let mut rest = Reader { kind: 'B', rest: self.bytes };
        (0..self.count).map(move |_| {
            rest.value().expect("the values were measured when the message was decoded")
        })
    }
}

/// Decodes the body of a message of a type that [`super::frame`] let pass.
pub fn decode(kind: u8, body: &[u8]) -> Result<Frontend<'_>, WireError> {
    let mut body = Reader { kind: char::from(kind), rest: body };
    let message = match kind {
        b'Q' => Frontend::Query(body.string()?),
        b'P' => Frontend::Parse(Parse {
            name: body.string()?,
            query: body.string()?,
            types: body.integers()?,
        }),
        b'B' => Frontend::Bind(bind(&mut body)?),
        b'D' => Frontend::Describe(body.target()?),
        b'C' => Frontend::Close(body.target()?),
        b'E' => Frontend::Execute {
            portal: body.string()?,
            // PostgreSQL takes a negative limit for none.
            max_rows: body.i32()?.max(0) as u32,
        },
        b'S' => Frontend::Sync,
        b'H' => Frontend::Flush,
        b'X' => Frontend::Terminate,
        b'd' => return Ok(Frontend::CopyData(body.rest)),
        b'c' => Frontend::CopyDone,
        b'f' => Frontend::CopyFail(body.string()?),
        b'p' => return Ok(Frontend::Password),
        b'F' => return Ok(Frontend::FunctionCall),
        other => return Err(WireError::UnknownType(other)),
    };
    body.end()?;
    Ok(message)
}

fn bind<'a>(body: &mut Reader<'a>) -> Result<Bind<'a>, WireError> {
    let portal = body.string()?;
    let statement = body.string()?;
    let parameter_formats = body.integers()?;
    let count = body.u16()?;
    let from = body.rest;
    for _ in 0..count {
        body.value()?;
    }
    let bytes = &from[..from.len() - body.rest.len()];
    let formats = parameter_formats.len();
    if formats > 1 && formats != usize::from(count) {
        return Err(WireError::Formats { formats, parameters: usize::from(count) });
    }
    Ok(Bind {
        portal,
        statement,
        parameter_formats,
        parameters: Parameters { count, bytes },
        result_formats: body.integers()?,
    })
}

/// What is left of a body.
struct Reader<'a> {
    kind: char,
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn take(&mut self, n: usize) -> Result<&'a [u8], WireError> {
        let (taken, rest) =
            self.rest.split_at_checked(n).ok_or(WireError::Short { kind: self.kind })?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        let taken = self.take(N)?;
        Ok(taken.try_into().expect("as many bytes as were taken"))
    }

    fn u16(&mut self) -> Result<u16, WireError> {
        Ok(u16::from_be_bytes(self.array()?))
    }

    fn i32(&mut self) -> Result<i32, WireError> {
        Ok(i32::from_be_bytes(self.array()?))
    }

    fn string(&mut self) -> Result<&'a str, WireError> {
        let end = self
            .rest
            .iter()
            .position(|&b| b == 0)
            .ok_or(WireError::Unterminated { kind: self.kind })?;
        let text = utf8(&self.rest[..end])?;
        self.rest = &self.rest[end + 1..];
        Ok(text)
    }

    fn integers<const N: usize>(&mut self) -> Result<Integers<'a, N>, WireError> {
        let count = usize::from(self.u16()?);
        let (chunks, none) = self.take(count * N)?.as_chunks();
        debug_assert!(none.is_empty(), "a multiple of N bytes was taken");
        Ok(Integers(chunks))
    }

    fn value(&mut self) -> Result<Option<&'a [u8]>, WireError> {
        match self.i32()? {
            -1 => Ok(None),
            length if length < 0 => Err(self.field("value length", i64::from(length))),
            length => self.take(length as usize).map(Some),
        }
    }

    fn target(&mut self) -> Result<Target<'a>, WireError> {
        match self.array()? {
            [b'S'] => Ok(Target::Statement(self.string()?)),
            [b'P'] => Ok(Target::Portal(self.string()?)),
            [other] => Err(self.field("subtype", i64::from(other))),
        }
    }

    fn field(&self, field: &'static str, value: i64) -> WireError {
        WireError::Field { kind: self.kind, field, value }
    }

    fn end(&self) -> Result<(), WireError> {
        match self.rest.len() {
            0 => Ok(()),
            extra => Err(WireError::Extra { kind: self.kind, extra }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bind_is_borrowed_from_its_bytes() {
        let body = b"p\0s\0\0\x01\0\x01\0\x03\0\0\0\x02hi\xff\xff\xff\xff\0\0\0\0\0\x02\0\0\0\x01";
        let Ok(Frontend::Bind(bind)) = decode(b'B', body) else {
            panic!("not a Bind");
        };
        assert_eq!((bind.portal, bind.statement), ("p", "s"));
        assert_eq!(bind.parameter_formats.get(0), Some(1));
        let values: Vec<_> = bind.parameters.iter().collect();
        assert_eq!(values, [Some(&b"hi"[..]), None, Some(&b""[..])]);
        assert_eq!(bind.result_formats.len(), 2);
    }

    #[test]
    fn every_prefix_of_a_message_is_an_error_and_not_a_panic() {
        let messages: [(u8, &[u8]); 6] = [
            (b'B', b"p\0s\0\0\x01\0\x01\0\x01\0\0\0\x02hi\0\x01\0\x01"),
            (b'P', b"s\0select 1\0\0\x02\0\0\0\x17\0\0\0\x19"),
            (b'D', b"Sname\0"),
            (b'E', b"p\0\0\0\0\x05"),
            (b'Q', b"select 1\0"),
            (b'f', b"why\0"),
        ];
        for (kind, body) in messages {
            assert!(decode(kind, body).is_ok(), "{body:?}");
            for cut in 0..body.len() {
                let error = decode(kind, &body[..cut]).expect_err("a prefix is no message");
                assert!(!error.fatal(), "{error}");
            }
            let longer = [body, b"\0"].concat();
            let error = decode(kind, &longer).expect_err("a byte too many");
            assert!(matches!(error, WireError::Extra { extra: 1, .. }), "{error}");
        }
    }

    #[test]
    fn counts_and_codes_out_of_range_are_refused() {
        for (kind, body) in [
            (b'B', &b"\0\0\xff\xff"[..]),
            (b'B', b"\0\0\0\0\xff\xff"),
            (b'B', b"\0\0\0\0\0\x01\x7f\xff\xff\xff"),
            (b'B', b"\0\0\0\0\0\x01\xff\xff\xff\xfe\0\0"),
            (b'B', b"\0\0\0\x02\0\0\0\0\0\x01\xff\xff\xff\xff\0\0"),
            (b'D', b"Xname\0"),
            (b'P', b"\0\0\xff\xff"),
        ] {
            let error = decode(kind, body).expect_err("refused");
            assert_eq!(error.sqlstate().as_str(), "08P01", "{error}");
        }
        let error = decode(b'Q', b"select '\xff\xfe'\0").expect_err("refused");
        assert_eq!(error.sqlstate().as_str(), "22021");
        assert_eq!(error.to_string(), "invalid byte sequence for encoding \"UTF8\": 0xff");
    }
}
