//! Evaluation of a print format's expressions for one record.

use std::io::Write;

use super::super::field::{Field, until_nul};
use super::super::names::Names;
use super::super::order::Order;
use super::expr::{Expr, Type, integer};
use super::lists::{self, LONGEST};

/// A record, and descriptions of its fields.
pub(super) struct Record<'a> {
    pub fields: &'a [Field],
    pub payload: &'a [u8],
    pub order: Order,
    /// Size of a `long` in bytes.
    pub long: usize,
    pub names: &'a dyn Names,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Number(Number),
    /// A string of the print format, or the result of a function.
    Text(Vec<u8>),
    Memory(Memory),
}

/// An integer of 4 or 8 bytes, after C's promotion.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Number {
    /// Value extended to 64 bits, according to its sign.
    pub bits: u64,
    pub bytes: usize,
    pub signed: bool,
}

/// A pointer into the payload.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Memory {
    pub at: usize,
    /// End of the array.
    pub end: usize,
    /// Size of an element in bytes, and whether it is signed.
    pub element: usize,
    pub signed: bool,
}

impl Number {
    /// Creates a promoted integer of a type.
    fn new(bits: u64, bytes: usize, signed: bool) -> Self {
        let bits = extend(bits, bytes, signed);
        match bytes {
            0 | 8.. => Self {
                bits,
                bytes: 8,
                signed,
            },
            4 => Self {
                bits,
                bytes: 4,
                signed,
            },
            _ => Self {
                bits,
                bytes: 4,
                signed: true,
            },
        }
    }

    fn truth(is_true: bool) -> Self {
        Self::new(is_true.into(), 4, true)
    }
}

/// Truncates a number to its size and extends it again.
pub(super) fn extend(bits: u64, bytes: usize, signed: bool) -> u64 {
    if bytes == 0 || bytes >= 8 {
        return bits;
    }
    let unused = 64 - 8 * bytes as u32;
    if signed {
        ((bits << unused) as i64 >> unused) as u64
    } else {
        bits << unused >> unused
    }
}

type Result<T> = std::result::Result<T, String>;

impl Record<'_> {
    pub fn value(&self, expr: &Expr) -> Result<Value> {
        Ok(match expr {
            &Expr::Number {
                value,
                unsigned,
                long,
            } => Value::Number(Number::new(value, if long { 8 } else { 4 }, !unsigned)),
            Expr::Text(text) => Value::Text(text.clone()),
            Expr::Record => Value::Memory(self.memory(0, self.payload.len(), 1, false)),
            Expr::Field(name) => self.field(name)?,
            Expr::Word(word) if word == "NULL" || word == "false" => number(0),
            Expr::Word(word) if word == "true" => number(1),
            Expr::Word(word) => match enumerator(word) {
                Some(value) => number(value),
                None => return Err(format!("{word}, a name of the kernel")),
            },
            Expr::Unary(sign, inner) => self.unary(sign, inner)?,
            Expr::Chain(first, rest) => {
                let mut left = self.value(first)?;
                for (sign, right) in rest {
                    left = self.binary(sign, left, right)?;
                }
                left
            }
            Expr::Choice(parts) => {
                let [condition, yes, no] = &**parts;
                let is_true = truth(&self.value(condition)?);
                self.value(if is_true { yes } else { no })?
            }
            Expr::Cast(kind, inner) => self.cast(*kind, self.value(inner)?),
            Expr::SizeOf(kind) => {
                let bytes = if kind.pointer { self.long } else { kind.bytes };
                Value::Number(Number::new(bytes as u64, self.long, false))
            }
            Expr::Index(array, index) => {
                let index = self.integer(index)?.bits as usize;
                match self.value(array)? {
                    Value::Memory(memory) => {
                        let at = index.checked_mul(memory.element.max(1));
                        let at = at.and_then(|skip| memory.at.checked_add(skip));
                        self.load(at.unwrap_or(usize::MAX), memory.element, memory.signed)?
                    }
                    _ => return Err("an index into no array".to_owned()),
                }
            }
            Expr::Call(function, arguments) => self.call(function, arguments)?,
            Expr::Braces(_) => return Err("a list in braces".to_owned()),
        })
    }

    /// Returns the bytes that a pointer points to, up to the end of its array.
    pub fn bytes(&self, memory: Memory) -> &[u8] {
        let end = memory.end.min(self.payload.len());
        self.payload.get(memory.at..end).unwrap_or_default()
    }

    fn memory(&self, at: usize, len: usize, element: usize, signed: bool) -> Memory {
        Memory {
            at,
            end: at.saturating_add(len),
            element,
            signed,
        }
    }

    fn load(&self, at: usize, bytes: usize, signed: bool) -> Result<Value> {
        let len = if bytes == 0 { 1 } else { bytes };
        let number = self.order.read(self.payload, at, len);
        let number = number.ok_or("a place behind the record's end")?;
        Ok(Value::Number(Number::new(number, len, signed)))
    }

    fn find(&self, name: &str) -> Result<&Field> {
        let field = self.fields.iter().find(|field| field.name == name);
        field.ok_or_else(|| format!("{name}, a field that is not there"))
    }

    fn field(&self, name: &str) -> Result<Value> {
        for prefix in ["__data_loc_", "__rel_loc_"] {
            if let Some(name) = name.strip_prefix(prefix) {
                let field = self.find(name)?;
                return self.load(field.offset, field.size, false);
            }
        }
        if let Some(at) = COMMON.iter().position(|(common, ..)| *common == name) {
            let (_, offset, bytes, signed) = COMMON[at];
            return self.load(offset, bytes, signed);
        }
        let field = self.find(name)?;
        if field.is_dynamic() {
            return self.array(field);
        }
        if !field.is_array() && matches!(field.size, 1 | 2 | 4 | 8) {
            return self.load(field.offset, field.size, field.signed);
        }
        let element = self.element(&field.kind, 1);
        // An array without a length extends to the record's end.
        let len = match field.size {
            0 => self.payload.len().saturating_sub(field.offset),
            size => size,
        };
        Ok(Value::Memory(self.memory(
            field.offset,
            len,
            element,
            field.signed,
        )))
    }

    /// Returns the size of an array's element, according to its type.
    fn element(&self, kind: &str, unknown: usize) -> usize {
        let kind = kind
            .trim_start_matches("__data_loc")
            .trim_start_matches("__rel_loc");
        let base = kind.split('[').next().unwrap_or_default();
        if base.contains('*') {
            return self.long;
        }
        let words: Vec<_> = base.split_ascii_whitespace().collect();
        match integer(&words, self.long) {
            Some(kind) if kind.bytes > 0 => kind.bytes,
            _ => unknown,
        }
    }

    fn array(&self, field: &Field) -> Result<Value> {
        let location = field.location(self.payload, self.order);
        let (at, len) = location.ok_or("an array's place behind the record's end")?;
        let element = self.element(&field.kind, 1);
        Ok(Value::Memory(self.memory(at, len, element, field.signed)))
    }

    pub fn integer(&self, expr: &Expr) -> Result<Number> {
        match self.value(expr)? {
            Value::Number(number) => Ok(number),
            _ => Err("a pointer in place of a number".to_owned()),
        }
    }

    fn unary(&self, sign: &str, inner: &Expr) -> Result<Value> {
        if sign == "&" {
            let (place, skip) = match inner {
                Expr::Index(array, index) => (&**array, self.integer(index)?.bits as usize),
                place => (place, 0),
            };
            // Address of a field, even if the field is a number.
            if let Expr::Field(name) = place
                && let Ok(field) = self.find(name)
                && !field.is_dynamic()
            {
                let element = match field.is_array() {
                    true => self.element(&field.kind, 1),
                    false => field.size,
                };
                let at = field.offset.saturating_add(skip.saturating_mul(element));
                let len = (field.offset + field.size).saturating_sub(at);
                return Ok(Value::Memory(self.memory(at, len, element, field.signed)));
            }
            let Value::Memory(memory) = self.value(place)? else {
                return Err("an address of no place".to_owned());
            };
            let at = memory
                .at
                .saturating_add(skip.saturating_mul(memory.element));
            return Ok(Value::Memory(Memory { at, ..memory }));
        }
        let value = self.value(inner)?;
        if let ("*", Value::Memory(memory)) = (sign, &value) {
            return self.load(memory.at, memory.element, memory.signed);
        }
        if sign == "!" {
            return Ok(Value::Number(Number::truth(!truth(&value))));
        }
        let Value::Number(number) = value else {
            return Err(format!("{sign} before a pointer"));
        };
        let bits = match sign {
            "-" => number.bits.wrapping_neg(),
            "~" => !number.bits,
            "+" => number.bits,
            _ => return Err("a pointer to the kernel's memory".to_owned()),
        };
        Ok(Value::Number(Number::new(
            bits,
            number.bytes,
            number.signed,
        )))
    }

    fn binary(&self, sign: &str, left: Value, right: &Expr) -> Result<Value> {
        if let "&&" | "||" = sign {
            let is_left = truth(&left);
            let decided = is_left == (sign == "||");
            let is_true = if decided {
                is_left
            } else {
                truth(&self.value(right)?)
            };
            return Ok(Value::Number(Number::truth(is_true)));
        }
        let (a, b) = match (left, self.value(right)?) {
            (Value::Number(a), Value::Number(b)) => (a, b),
            (Value::Memory(memory), Value::Number(number))
            | (Value::Number(number), Value::Memory(memory))
                if matches!(sign, "+" | "-") =>
            {
                let skip = (number.bits as usize).wrapping_mul(memory.element.max(1));
                let at = match sign {
                    "+" => memory.at.wrapping_add(skip),
                    _ => memory.at.wrapping_sub(skip),
                };
                return Ok(Value::Memory(Memory { at, ..memory }));
            }
            // A pointer into the record is never null.
            (Value::Memory(_) | Value::Text(_), Value::Number(Number { bits: 0, .. })) => {
                match sign {
                    "==" => return Ok(number(0)),
                    "!=" => return Ok(number(1)),
                    _ => return Err(format!("{sign} with a pointer")),
                }
            }
            _ => return Err(format!("{sign} with a pointer")),
        };
        arithmetic(sign, a, b).map(Value::Number)
    }

    fn cast(&self, kind: Type, value: Value) -> Value {
        match value {
            Value::Number(number) if !kind.pointer => {
                let bits = if kind.boolean {
                    (number.bits != 0).into()
                } else {
                    number.bits
                };
                match kind.bytes {
                    0 => value,
                    bytes => Value::Number(Number::new(bits, bytes, kind.signed)),
                }
            }
            // A pointer in the record is a number.
            Value::Number(number) => Value::Number(Number::new(number.bits, self.long, false)),
            Value::Memory(memory) if kind.pointer => Value::Memory(Memory {
                element: kind.bytes.max(1),
                signed: kind.signed,
                ..memory
            }),
            value => value,
        }
    }

    fn call(&self, function: &str, arguments: &[Expr]) -> Result<Value> {
        let argument = |at: usize| {
            let argument = arguments.get(at);
            argument.ok_or_else(|| format!("{function} with too few arguments"))
        };
        let named = || match argument(0)? {
            Expr::Word(name) => self.find(name),
            _ => Err(format!("{function} without a field")),
        };
        let memory = |at: usize| match self.value(argument(at)?)? {
            Value::Memory(memory) => Ok(memory),
            _ => Err(format!("{function} of no array")),
        };
        let size = |at: usize| -> Result<usize> { Ok(self.integer(argument(at)?)?.bits as usize) };
        let text = match function {
            "__get_str"
            | "__get_rel_str"
            | "__get_dynamic_array"
            | "__get_rel_dynamic_array"
            | "__get_sockaddr"
            | "__get_rel_sockaddr" => return self.array(named()?),
            "__get_dynamic_array_len" | "__get_rel_dynamic_array_len" => {
                let location = named()?.location(self.payload, self.order);
                return Ok(number(location.map_or(0, |(_, len)| len) as u64));
            }
            "__get_bitmask" | "__get_cpumask" | "__get_rel_bitmask" | "__get_rel_cpumask" => {
                let Value::Memory(memory) = self.array(named()?)? else {
                    return Err("a bit mask of no array".to_owned());
                };
                lists::bitmask(self.bytes(memory), self.order, self.long)
            }
            "__print_symbolic" | "__print_symbolic_u64" => {
                let value = self.integer(argument(0)?)?;
                self.symbolic(value, &arguments[1..])?
            }
            "__print_flags" | "__print_flags_u64" => {
                let flags = self.integer(argument(0)?)?;
                let between = match self.value(argument(1)?)? {
                    Value::Text(text) => text,
                    _ => Vec::new(),
                };
                self.flags(flags, &between, &arguments[2..])?
            }
            "__print_hex" | "__print_hex_str" => {
                let bytes = self.bytes(memory(0)?);
                let bytes = &bytes[..size(1)?.min(bytes.len())];
                let between: &[u8] = if function == "__print_hex" { b" " } else { b"" };
                lists::hex(bytes, between)
            }
            "__print_array" => {
                let bytes = self.bytes(memory(0)?);
                let len = size(1)?.saturating_mul(size(2)?);
                lists::array(&bytes[..len.min(bytes.len())], size(2)?, self.order)
            }
            "__print_dynamic_array" => {
                let Value::Memory(memory) = self.array(named()?)? else {
                    return Err("no array".to_owned());
                };
                lists::array(self.bytes(memory), size(1)?, self.order)
            }
            "__print_ns_to_secs" => {
                return self.long_number(argument(0)?, |ns| ns / 1_000_000_000);
            }
            "__print_ns_without_secs" => {
                let rest = self.integer(argument(0)?)?.bits % 1_000_000_000;
                return Ok(Value::Number(Number::new(rest, 4, false)));
            }
            "__builtin_expect" | "likely" | "unlikely" => return self.value(argument(0)?),
            "__builtin_constant_p" => return Ok(number(0)),
            _ => {
                let value = argument(0).and_then(|first| self.integer(first));
                let swapped = value
                    .ok()
                    .and_then(|value| self.swapped(function, value.bits));
                let swapped =
                    swapped.ok_or_else(|| format!("{function}(), a function of the kernel"))?;
                return Ok(Value::Number(swapped));
            }
        };
        Ok(Value::Text(text))
    }

    fn long_number(&self, expr: &Expr, then: impl FnOnce(u64) -> u64) -> Result<Value> {
        let bits = then(self.integer(expr)?.bits);
        Ok(Value::Number(Number::new(bits, 8, false)))
    }

    /// Evaluates byte order conversions.
    fn swapped(&self, function: &str, bits: u64) -> Option<Number> {
        let name = function.trim_start_matches('_');
        let (bytes, foreign) = match name {
            "builtin_bswap16" | "swab16" => (2, None),
            "builtin_bswap32" | "swab32" => (4, None),
            "builtin_bswap64" | "swab64" => (8, None),
            "ntohs" | "htons" | "be16_to_cpu" | "cpu_to_be16" => (2, Some(Order::Big)),
            "ntohl" | "htonl" | "be32_to_cpu" | "cpu_to_be32" => (4, Some(Order::Big)),
            "be64_to_cpu" | "cpu_to_be64" => (8, Some(Order::Big)),
            "le16_to_cpu" | "cpu_to_le16" => (2, Some(Order::Little)),
            "le32_to_cpu" | "cpu_to_le32" => (4, Some(Order::Little)),
            "le64_to_cpu" | "cpu_to_le64" => (8, Some(Order::Little)),
            _ => return None,
        };
        let bits = if foreign == Some(self.order) {
            bits
        } else {
            bits.swap_bytes() >> (64 - 8 * bytes)
        };
        Some(Number::new(bits, bytes, false))
    }

    /// Returns the value and the name of a pair in braces.
    fn pair(&self, pair: &Expr) -> Result<(u64, Vec<u8>)> {
        let Expr::Braces(pair) = pair else {
            return Err("a list without braces".to_owned());
        };
        let [value, name] = &pair[..] else {
            return Err("a list that is not of pairs".to_owned());
        };
        let bits = self.integer(value)?.bits;
        match self.value(name)? {
            Value::Text(name) => Ok((extend(bits, self.long, false), name)),
            _ => Err("a value without a name".to_owned()),
        }
    }

    fn symbolic(&self, value: Number, pairs: &[Expr]) -> Result<Vec<u8>> {
        let value = extend(value.bits, self.long, false);
        for pair in pairs {
            let (known, name) = self.pair(pair)?;
            if known == value {
                return Ok(name);
            }
        }
        Ok(format!("{value:#x}").into_bytes())
    }

    fn flags(&self, flags: Number, between: &[u8], pairs: &[Expr]) -> Result<Vec<u8>> {
        let mut flags = extend(flags.bits, self.long, false);
        let mut out = Vec::new();
        let mut is_first = true;
        for pair in pairs {
            if flags == 0 || out.len() > LONGEST {
                break;
            }
            let (mask, name) = self.pair(pair)?;
            if flags & mask != mask {
                continue;
            }
            flags &= !mask;
            out.extend_from_slice(if is_first { b"" } else { between });
            is_first = false;
            out.extend_from_slice(&name);
        }
        if flags != 0 {
            out.extend_from_slice(if is_first { b"" } else { between });
            let _ = write!(out, "{flags:#x}");
        }
        Ok(out)
    }

    /// Returns a value's bytes as a C string. Like Linux, it reads beyond an array without a NUL,
    /// up to the record's end.
    pub fn string<'v>(&'v self, value: &'v Value) -> Option<&'v [u8]> {
        let bytes = match value {
            Value::Text(text) => Some(&text[..]),
            Value::Memory(memory) => Some(self.payload.get(memory.at..).unwrap_or_default()),
            Value::Number(number) => self.names.constant(number.bits),
        };
        bytes.map(until_nul)
    }
}

/// Common fields of all events: name, offset, size, sign.
const COMMON: [(&str, usize, usize, bool); 4] = [
    ("common_type", 0, 2, false),
    ("common_flags", 2, 1, false),
    ("common_preempt_count", 3, 1, false),
    ("common_pid", 4, 4, true),
];

/// Returns the value of an enumerator that Linux leaves in its print formats by name.
fn enumerator(name: &str) -> Option<u64> {
    if let Some(mode) = name.strip_prefix("HRTIMER_MODE_") {
        return mode
            .split('_')
            .map(|part| match part {
                "ABS" => Some(0),
                "REL" => Some(1),
                "PINNED" => Some(2),
                "SOFT" => Some(4),
                "HARD" => Some(8),
                _ => None,
            })
            .sum();
    }
    Some(match name {
        "IOPRIO_CLASS_NONE" | "PM_QOS_ADD_REQ" | "VMSCAN_THROTTLE_WRITEBACK" => 0,
        "IOPRIO_CLASS_RT"
        | "PM_QOS_UPDATE_REQ"
        | "DEV_PM_QOS_RESUME_LATENCY"
        | "VMSCAN_THROTTLE_ISOLATED" => 1,
        "IOPRIO_CLASS_BE" | "PM_QOS_REMOVE_REQ" | "VMSCAN_THROTTLE_NOPROGRESS" => 2,
        "IOPRIO_CLASS_IDLE" | "VMSCAN_THROTTLE_CONGESTED" => 3,
        "DEV_PM_QOS_FLAGS" => 5,
        "IOPRIO_CLASS_INVALID" => 7,
        _ => return None,
    })
}

fn number(bits: u64) -> Value {
    Value::Number(Number::new(bits, 4, true))
}

fn truth(value: &Value) -> bool {
    match value {
        Value::Number(number) => number.bits != 0,
        Value::Text(_) | Value::Memory(_) => true,
    }
}

/// C's arithmetic, after the usual conversions.
fn arithmetic(sign: &str, a: Number, b: Number) -> Result<Number> {
    if let "<<" | ">>" = sign {
        let by = b.bits as u32 & (8 * a.bytes as u32 - 1);
        let bits = match sign {
            "<<" => a.bits << by,
            _ if a.signed => (a.bits as i64 >> by) as u64,
            _ => a.bits >> by,
        };
        return Ok(Number::new(bits, a.bytes, a.signed));
    }
    let bytes = a.bytes.max(b.bytes);
    let is_unsigned = |number: Number| !number.signed && number.bytes == bytes;
    let signed = !is_unsigned(a) && !is_unsigned(b);
    let (x, y) = (extend(a.bits, bytes, signed), extend(b.bits, bytes, signed));
    let less = if signed { (x as i64) < y as i64 } else { x < y };
    let truth = match sign {
        "==" => Some(x == y),
        "!=" => Some(x != y),
        "<" => Some(less),
        ">=" => Some(!less),
        ">" => Some(!less && x != y),
        "<=" => Some(less || x == y),
        _ => None,
    };
    if let Some(truth) = truth {
        return Ok(Number::truth(truth));
    }
    if matches!(sign, "/" | "%") && y == 0 {
        return Err("a division by zero".to_owned());
    }
    let bits = match sign {
        "+" => x.wrapping_add(y),
        "-" => x.wrapping_sub(y),
        "*" => x.wrapping_mul(y),
        "/" if signed => (x as i64).wrapping_div(y as i64) as u64,
        "/" => x / y,
        "%" if signed => (x as i64).wrapping_rem(y as i64) as u64,
        "%" => x % y,
        "&" => x & y,
        "|" => x | y,
        "^" => x ^ y,
        _ => return Err(format!("the operator {sign}")),
    };
    Ok(Number::new(bits, bytes, signed))
}
