//! Parser for the expressions of a print format: the subset of C in Linux's events.

use super::token::{Token, tokens};

/// Maximum nesting depth of expressions. Linux's have about 30 levels.
const DEEPEST: usize = 100;

/// An integer type, or a pointer to one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Type {
    /// Size in bytes of the integer or pointed-to integer; 0 if unknown.
    pub bytes: usize,
    pub signed: bool,
    pub pointer: bool,
    /// Whether values become 0 or 1.
    pub boolean: bool,
}

#[derive(Clone, Debug)]
pub(super) enum Expr {
    Number {
        value: u64,
        unsigned: bool,
        long: bool,
    },
    Text(Vec<u8>),
    /// The record itself.
    Record,
    Field(String),
    /// A word that is no field: an enumerator that Linux did not replace.
    Word(String),
    Unary(&'static str, Box<Expr>),
    /// Left-associative operators of one precedence. A list, so that no chain makes a deep tree.
    Chain(Box<Expr>, Vec<(&'static str, Expr)>),
    Choice(Box<[Expr; 3]>),
    Cast(Type, Box<Expr>),
    SizeOf(Type),
    Index(Box<Expr>, Box<Expr>),
    Call(String, Vec<Expr>),
    /// `{ value, "name" }`.
    Braces(Vec<Expr>),
}

/// A parsed print format: format string and arguments.
#[derive(Clone, Debug)]
pub(super) struct Parsed {
    pub format: Vec<u8>,
    pub arguments: Vec<Expr>,
}

/// Parses a print format; the error describes the unsupported part.
pub(super) fn parse(text: &str, long: usize) -> Result<Parsed, String> {
    let tokens = tokens(text).ok_or("a character that is no C")?;
    let mut parser = Parser {
        tokens: &tokens,
        at: 0,
        long,
        depth: 0,
    };
    let Some(Token::Text(_)) = tokens.first() else {
        return Err("it does not start with a format string".to_owned());
    };
    let format = parser.text();
    let mut arguments = Vec::new();
    while parser.takes(",") {
        arguments.push(parser.expression()?);
    }
    match parser.tokens.get(parser.at) {
        None => Ok(Parsed { format, arguments }),
        Some(token) => Err(format!("an unexpected {}", shown(token))),
    }
}

fn shown(token: &Token) -> String {
    match token {
        Token::Word(word) => word.clone(),
        Token::Number { value, .. } => value.to_string(),
        Token::Text(text) => format!("{:?}", String::from_utf8_lossy(text)),
        Token::Sign(sign) => (*sign).to_owned(),
    }
}

struct Parser<'a> {
    tokens: &'a [Token],
    at: usize,
    /// Size of a `long` in bytes.
    long: usize,
    depth: usize,
}

/// Binary operators by precedence, the weakest first.
const BINARY: [&[&str]; 10] = [
    &["||"],
    &["&&"],
    &["|"],
    &["^"],
    &["&"],
    &["==", "!="],
    &["<", ">", "<=", ">="],
    &["<<", ">>"],
    &["+", "-"],
    &["*", "/", "%"],
];

impl Parser<'_> {
    fn peek(&self, sign: &str) -> bool {
        matches!(self.tokens.get(self.at), Some(Token::Sign(next)) if *next == sign)
    }

    fn takes(&mut self, sign: &str) -> bool {
        let is_next = self.peek(sign);
        self.at += usize::from(is_next);
        is_next
    }

    fn expect(&mut self, sign: &str) -> Result<(), String> {
        if self.takes(sign) {
            return Ok(());
        }
        let found = self.tokens.get(self.at).map_or("its end".to_owned(), shown);
        Err(format!("{found} in place of {sign}"))
    }

    /// Joins adjacent strings.
    fn text(&mut self) -> Vec<u8> {
        let mut text = Vec::new();
        while let Some(Token::Text(next)) = self.tokens.get(self.at) {
            text.extend_from_slice(next);
            self.at += 1;
        }
        text
    }

    fn expression(&mut self) -> Result<Expr, String> {
        self.deeper(|parser| {
            let condition = parser.binary(0)?;
            if !parser.takes("?") {
                return Ok(condition);
            }
            // GNU's short form repeats the condition.
            let yes = if parser.peek(":") {
                condition.clone()
            } else {
                parser.expression()?
            };
            parser.expect(":")?;
            let no = parser.expression()?;
            Ok(Expr::Choice(Box::new([condition, yes, no])))
        })
    }

    /// Parses one level deeper, within the limit.
    fn deeper(
        &mut self,
        parse: impl FnOnce(&mut Self) -> Result<Expr, String>,
    ) -> Result<Expr, String> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err("too many levels".to_owned());
        }
        let parsed = parse(self);
        self.depth -= 1;
        parsed
    }

    fn binary(&mut self, level: usize) -> Result<Expr, String> {
        let Some(signs) = BINARY.get(level) else {
            return self.unary();
        };
        let first = self.binary(level + 1)?;
        let mut chain = Vec::new();
        while let Some(sign) = signs.iter().copied().find(|sign| self.takes(sign)) {
            chain.push((sign, self.binary(level + 1)?));
        }
        Ok(if chain.is_empty() {
            first
        } else {
            Expr::Chain(Box::new(first), chain)
        })
    }

    fn unary(&mut self) -> Result<Expr, String> {
        for sign in ["-", "+", "!", "~", "*", "&"] {
            if self.takes(sign) {
                return self.deeper(|parser| Ok(Expr::Unary(sign, Box::new(parser.unary()?))));
            }
        }
        if self.peek("(") {
            self.at += 1;
            if let Some(kind) = self.type_name() {
                self.expect(")")?;
                return self.deeper(|parser| Ok(Expr::Cast(kind, Box::new(parser.unary()?))));
            }
            let inner = self.expression()?;
            self.expect(")")?;
            return self.postfix(inner);
        }
        let primary = self.primary()?;
        self.postfix(primary)
    }

    fn postfix(&mut self, mut expr: Expr) -> Result<Expr, String> {
        if self.takes("[") {
            let index = self.expression()?;
            self.expect("]")?;
            expr = Expr::Index(Box::new(expr), Box::new(index));
        }
        Ok(expr)
    }

    fn primary(&mut self) -> Result<Expr, String> {
        let Some(token) = self.tokens.get(self.at) else {
            return Err("its end in place of a value".to_owned());
        };
        match token {
            Token::Text(_) => return Ok(Expr::Text(self.text())),
            &Token::Number {
                value,
                unsigned,
                long,
            } => {
                self.at += 1;
                return Ok(Expr::Number {
                    value,
                    unsigned,
                    long,
                });
            }
            Token::Sign("{") => {
                self.at += 1;
                return Ok(Expr::Braces(self.list("}")?));
            }
            Token::Sign(_) => {}
            Token::Word(word) => {
                self.at += 1;
                return self.word(word);
            }
        }
        Err(format!("{} in place of a value", shown(token)))
    }

    fn word(&mut self, word: &str) -> Result<Expr, String> {
        if word == "REC" {
            if !self.takes("->") {
                return Ok(Expr::Record);
            }
            let Some(Token::Word(field)) = self.tokens.get(self.at) else {
                return Err("REC-> without a field".to_owned());
            };
            self.at += 1;
            return Ok(Expr::Field(field.clone()));
        }
        if !self.takes("(") {
            return Ok(Expr::Word(word.to_owned()));
        }
        if word == "sizeof" {
            let start = self.at;
            if let Some(kind) = self.type_name()
                && self.takes(")")
            {
                return Ok(Expr::SizeOf(kind));
            }
            self.at = start;
        }
        Ok(Expr::Call(word.to_owned(), self.list(")")?))
    }

    /// Parses expressions up to a closing bracket, optionally after a comma.
    fn list(&mut self, end: &str) -> Result<Vec<Expr>, String> {
        let mut list = Vec::new();
        while !self.takes(end) {
            list.push(self.expression()?);
            if !self.takes(",") {
                self.expect(end)?;
                break;
            }
        }
        Ok(list)
    }

    /// Parses a type's name; consumes nothing if there is none.
    fn type_name(&mut self) -> Option<Type> {
        let start = self.at;
        let mut words = Vec::new();
        while let Some(Token::Word(word)) = self.tokens.get(self.at) {
            words.push(word.as_str());
            self.at += 1;
        }
        let mut pointers = 0;
        while self.takes("*") {
            pointers += 1;
            if let Some(Token::Word(word)) = self.tokens.get(self.at)
                && is_qualifier(word)
            {
                self.at += 1;
            }
        }
        let found = self
            .peek(")")
            .then(|| integer(&words, self.long))
            .flatten()
            .map(|kind| match pointers {
                0 => kind,
                1 => Type {
                    pointer: true,
                    ..kind
                },
                _ => Type {
                    bytes: self.long,
                    signed: false,
                    pointer: true,
                    boolean: false,
                },
            });
        if found.is_none() {
            self.at = start;
        }
        found
    }
}

fn is_qualifier(word: &str) -> bool {
    matches!(
        word,
        "const" | "volatile" | "__force" | "__user" | "__kernel" | "__iomem" | "__rcu" | "__percpu"
    )
}

/// Returns the integer type with this name.
pub(super) fn integer(words: &[&str], long: usize) -> Option<Type> {
    let words: Vec<_> = words
        .iter()
        .copied()
        .filter(|word| !is_qualifier(word))
        .collect();
    let kind = |bytes, signed| {
        Some(Type {
            bytes,
            signed,
            pointer: false,
            boolean: false,
        })
    };
    let is_c = |word: &&str| {
        matches!(
            *word,
            "unsigned" | "signed" | "int" | "long" | "short" | "char"
        )
    };
    if !words.is_empty() && words.iter().all(is_c) {
        let has = |wanted| words.contains(&wanted);
        let longs = words.iter().filter(|word| **word == "long").count();
        let bytes = match longs {
            _ if has("char") => 1,
            _ if has("short") => 2,
            0 => 4,
            1 => long,
            _ => 8,
        };
        return kind(bytes, !has("unsigned"));
    }
    match words[..] {
        ["enum", _] => kind(4, false),
        ["struct" | "union", _] | ["void"] => kind(0, false),
        ["bool" | "_Bool"] => Some(Type {
            bytes: 1,
            signed: false,
            pointer: false,
            boolean: true,
        }),
        [word] => match word.trim_start_matches('_') {
            "u8" | "uint8_t" => kind(1, false),
            "s8" | "int8_t" => kind(1, true),
            "u16" | "be16" | "le16" | "uint16_t" | "umode_t" | "sum16" => kind(2, false),
            "s16" | "int16_t" => kind(2, true),
            "u32" | "be32" | "le32" | "uint32_t" | "uint" | "dev_t" | "gfp_t" | "uid_t"
            | "gid_t" | "fmode_t" | "wsum" | "blk_opf_t" | "vm_fault_t" => kind(4, false),
            "s32" | "int32_t" | "pid_t" | "key_t" => kind(4, true),
            "u64" | "be64" | "le64" | "uint64_t" | "sector_t" | "blkcnt_t" | "dma_addr_t"
            | "phys_addr_t" | "resource_size_t" => kind(8, false),
            "s64" | "int64_t" | "loff_t" | "time64_t" | "ktime_t" => kind(8, true),
            "size_t" | "ulong" | "uintptr_t" | "pgoff_t" | "ino_t" => kind(long, false),
            "ssize_t" | "off_t" | "ptrdiff_t" | "time_t" => kind(long, true),
            other if other.ends_with("_t") => kind(0, false),
            _ => None,
        },
        _ => None,
    }
}
