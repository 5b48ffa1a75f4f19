//! Print formats of events: a format string like C's `printf`, and expressions for its arguments.

mod eval;
mod expr;
mod lists;
mod pointer;
mod token;

use std::io::Write;

use self::eval::{Number, Record, Value, extend};
use self::expr::Parsed;
use self::lists::LONGEST;
use super::field::Field;
use super::names::Names;
use super::order::Order;

/// A print format.
#[derive(Clone, Debug)]
pub struct PrintFormat(Result<Parsed, String>);

impl PrintFormat {
    /// Parses the text after `print fmt:`. `long` is the size of a `long` in bytes.
    pub fn new(text: &str, long: usize) -> Self {
        Self(expr::parse(text, long))
    }

    /// Returns the reason why the print format cannot be parsed, if any.
    pub fn error(&self) -> Option<&str> {
        self.0.as_ref().err().map(String::as_str)
    }

    /// Returns a record's text.
    pub(super) fn text(
        &self,
        fields: &[Field],
        payload: &[u8],
        order: Order,
        long: usize,
        names: &dyn Names,
    ) -> Result<Vec<u8>, String> {
        let parsed = self.0.as_ref().map_err(Clone::clone)?;
        let record = Record {
            fields,
            payload,
            order,
            long,
            names,
        };
        let mut printer = Printer {
            record: &record,
            parsed,
            next: 0,
            out: Vec::new(),
        };
        printer.print()?;
        Ok(printer.out)
    }
}

struct Printer<'a> {
    record: &'a Record<'a>,
    parsed: &'a Parsed,
    /// Index of the next argument.
    next: usize,
    out: Vec<u8>,
}

/// One `%...` of a format string.
#[derive(Default)]
struct Conversion {
    left: bool,
    zero: bool,
    plus: bool,
    space: bool,
    prefix: bool,
    width: Option<usize>,
    precision: Option<usize>,
    /// Size of the argument in bytes.
    bytes: usize,
}

impl Printer<'_> {
    fn argument(&mut self) -> Result<Value, String> {
        let argument = self.parsed.arguments.get(self.next);
        self.next += 1;
        self.record.value(argument.ok_or("too few arguments")?)
    }

    fn number(&mut self) -> Result<Number, String> {
        match self.argument()? {
            Value::Number(number) => Ok(number),
            // The address of a part of the record is not in the record.
            _ => Err("a place of the record as a number".to_owned()),
        }
    }

    fn print(&mut self) -> Result<(), String> {
        let mut format = &self.parsed.format[..];
        while let Some(percent) = format.iter().position(|byte| *byte == b'%') {
            if self.out.len() > LONGEST {
                break;
            }
            self.out.extend_from_slice(&format[..percent]);
            format = self.conversion(&format[percent + 1..])?;
        }
        if self.out.len() <= LONGEST {
            self.out.extend_from_slice(format);
        }
        self.out.truncate(LONGEST);
        Ok(())
    }

    /// Prints a conversion, and returns the format string after it.
    fn conversion<'f>(&mut self, mut format: &'f [u8]) -> Result<&'f [u8], String> {
        let mut conversion = Conversion {
            bytes: 4,
            ..Conversion::default()
        };
        while let Some((flag, rest)) = format.split_first() {
            match flag {
                b'-' => conversion.left = true,
                b'0' => conversion.zero = true,
                b'+' => conversion.plus = true,
                b' ' => conversion.space = true,
                b'#' => conversion.prefix = true,
                _ => break,
            }
            format = rest;
        }
        let (width, rest) = self.size(format)?;
        if let Some(width) = width {
            conversion.left |= width < 0;
            conversion.width = Some((width.unsigned_abs() as usize).min(LONGEST));
        }
        format = rest;
        if let Some(rest) = format.strip_prefix(b".") {
            let (precision, rest) = self.size(rest)?;
            let precision = precision.unwrap_or(0);
            conversion.precision = (precision >= 0).then_some((precision as usize).min(LONGEST));
            format = rest;
        }
        while let Some((letter, rest)) = format.split_first() {
            conversion.bytes = match (letter, conversion.bytes) {
                (b'h', 2) => 1,
                (b'h', _) => 2,
                (b'l', 8) => 8,
                (b'l', bytes) if rest.first() == Some(&b'l') => bytes.max(8),
                (b'l' | b'z' | b'Z' | b't', _) => self.record.long,
                (b'L' | b'q' | b'j', _) => 8,
                _ => break,
            };
            format = rest;
        }
        let Some((&letter, rest)) = format.split_first() else {
            return Err("a conversion without a letter".to_owned());
        };
        format = rest;
        match letter {
            b'%' => self.out.push(b'%'),
            b'c' => {
                let byte = self.number()?.bits as u8;
                self.pad(&conversion, &[byte]);
            }
            b's' => {
                let value = self.argument()?;
                let text = match (&value, self.record.string(&value)) {
                    (_, Some(text)) => text,
                    (Value::Number(Number { bits: 0, .. }), _) => b"(null)",
                    _ => return Err("a string in the kernel's memory".to_owned()),
                };
                let most = conversion.precision.unwrap_or(LONGEST);
                let len = most.min(text.len());
                let text = text[..len].to_vec();
                self.pad(&conversion, &text);
            }
            b'p' => {
                let is_plain = !format.first().is_some_and(u8::is_ascii_alphanumeric);
                let value = match self.argument() {
                    // Linux prints a hash of the pointer, which a reader could not check.
                    Err(_) if is_plain && self.next <= self.parsed.arguments.len() => {
                        Value::Text(pointer::UNKNOWN.to_vec())
                    }
                    value => value?,
                };
                let (text, used) = pointer::pointer(format, &value, conversion.width, self.record)?;
                if matches!(format.first(), Some(b'h' | b'b')) {
                    // Its width is the number of bytes or bits.
                    conversion.width = None;
                }
                self.pad(&conversion, &text);
                format = &format[used..];
            }
            b'd' | b'i' | b'u' | b'x' | b'X' | b'o' => {
                let number = self.number()?;
                let text = conversion.number(letter, number);
                self.pad(&conversion, &text);
            }
            other => return Err(format!("the conversion %{}", char::from(other))),
        }
        Ok(format)
    }

    /// Parses a width or precision.
    fn size<'f>(&mut self, format: &'f [u8]) -> Result<(Option<i32>, &'f [u8]), String> {
        if let Some(rest) = format.strip_prefix(b"*") {
            let size = self.number()?.bits as i32;
            return Ok((Some(size), rest));
        }
        let digits = format
            .iter()
            .take_while(|byte| byte.is_ascii_digit())
            .count();
        let (digits, rest) = format.split_at(digits);
        if digits.is_empty() {
            return Ok((None, rest));
        }
        let digits = std::str::from_utf8(digits).unwrap_or_default();
        Ok((Some(digits.parse().unwrap_or(LONGEST as i32)), rest))
    }

    fn pad(&mut self, conversion: &Conversion, text: &[u8]) {
        let missing = conversion.width.unwrap_or(0).saturating_sub(text.len());
        let mut spaces = || self.out.resize(self.out.len() + missing, b' ');
        if conversion.left {
            self.out.extend_from_slice(text);
            self.out.resize(self.out.len() + missing, b' ');
        } else {
            spaces();
            self.out.extend_from_slice(text);
        }
    }
}

impl Conversion {
    /// Returns the digits with sign, prefix and zeros.
    fn number(&self, letter: u8, number: Number) -> Vec<u8> {
        let is_signed = matches!(letter, b'd' | b'i');
        let bits = extend(number.bits, self.bytes, is_signed);
        let is_negative = is_signed && (bits as i64) < 0;
        let magnitude = if is_negative {
            (bits as i64).unsigned_abs()
        } else {
            bits
        };
        let digits = match letter {
            b'x' => format!("{magnitude:x}"),
            b'X' => format!("{magnitude:X}"),
            b'o' => format!("{magnitude:o}"),
            _ => magnitude.to_string(),
        };
        let sign = match (is_negative, self.plus, self.space) {
            (true, ..) => "-",
            (_, true, _) if is_signed => "+",
            (_, _, true) if is_signed => " ",
            _ => "",
        };
        let prefix = match (self.prefix, letter) {
            (true, b'x') => "0x",
            (true, b'X') => "0X",
            (true, b'o') => "0",
            _ => "",
        };
        let width = match (self.precision, self.width) {
            (Some(precision), _) => precision,
            (None, Some(width)) if self.zero && !self.left => {
                width.saturating_sub(sign.len() + prefix.len())
            }
            _ => 0,
        };
        let mut text = Vec::new();
        let _ = write!(text, "{sign}{prefix}{digits:0>width$}");
        text
    }
}
