//! The nesting of brackets in a module's code, which is bounded before the code is parsed.
//!
//! ```text
//!  all brackets ─ few ─► accept
//!               └ many ─► brackets outside of literals and comments ─ few ─► accept
//!                                                                   └ many ─► refuse
//! ```
//!
//! Bundles contain tables in strings with thousands of brackets that are never closed, so a module
//! is refused only if both counts exceed the bound. The second count recognizes literals without a
//! grammar, as syntax highlighters do, and may be wrong in code that is written to mislead it. The
//! process that compiles the code then reaches its own bounds ([`process`](crate::process)).

use memchr::{memchr, memmem};
use tenon_proto::module::ModuleKind;

/// The words after which a slash begins a regular expression.
const BEFORE_EXPRESSIONS: [&[u8]; 14] = [
    b"await",
    b"case",
    b"delete",
    b"do",
    b"else",
    b"in",
    b"instanceof",
    b"new",
    b"of",
    b"return",
    b"throw",
    b"typeof",
    b"void",
    b"yield",
];

/// The length of the longest of these words, and one more byte.
const LONGER_THAN_WORDS: usize = 11;

/// Returns whether brackets are nested more than `bound` deep in a module's code.
pub(super) fn exceeds(bound: usize, kind: ModuleKind, source: &[u8]) -> bool {
    let has_angles = match kind {
        ModuleKind::JavaScript => false,
        ModuleKind::TypeScript => true,
        _ => return false,
    };
    depth(has_angles, source) > bound && depth(has_angles, &without_literals(source)) > bound
}

/// Returns how deeply brackets are nested.
///
/// # Arguments
/// * `has_angles` - whether `<` counts as a bracket. Such a bracket ends no later than the
///   statement or the enclosing bracket.
fn depth(has_angles: bool, code: &[u8]) -> usize {
    // The depth before each open bracket.
    let mut before: Vec<usize> = Vec::new();
    let (mut depth, mut deepest, mut last) = (0usize, 0usize, b' ');
    for byte in code.iter().copied() {
        let within = before.last().map_or(0, |before| before + 1);
        match byte {
            b'(' | b'[' | b'{' => {
                before.push(depth);
                depth += 1;
            }
            b')' | b']' | b'}' => depth = before.pop().unwrap_or_default(),
            b'<' if has_angles => depth += 1,
            b'>' if has_angles && last != b'=' => depth = depth.saturating_sub(1).max(within),
            b';' => depth = within,
            _ => {}
        }
        (deepest, last) = (deepest.max(depth), byte);
    }
    deepest
}

/// Returns the code with quotes in place of strings, templates and regular expressions, and spaces
/// in place of comments.
fn without_literals(source: &[u8]) -> Vec<u8> {
    let mut code = source.to_vec();
    // For each open brace, whether it begins a substitution of a template.
    let mut braces = Vec::new();
    let (mut at, mut template_end) = (0, None);
    while at < source.len() {
        let rest = &source[at..];
        let (kept, length, blank) = match rest {
            [b'/', b'/', ..] => (0, memchr(b'\n', rest).unwrap_or(rest.len()), b' '),
            [b'/', b'*', ..] => {
                (0, memmem::find(&rest[2..], b"*/").map_or(rest.len(), |end| end + 4), b' ')
            }
            [b'/', ..] if begins_expression(&code[..at]) => (0, regular_expression(rest), b'"'),
            [quote @ (b'"' | b'\''), ..] => (0, string(rest, *quote), b'"'),
            [b'`', ..] => (0, template(rest), b'"'),
            [b'$', b'{', ..] if template_end == Some(at) => {
                braces.push(true);
                (2, 0, b' ')
            }
            [b'{', ..] => {
                braces.push(false);
                (1, 0, b' ')
            }
            // The template continues after the brace that closes a substitution.
            [b'}', ..] if braces.pop() == Some(true) => (1, template(rest) - 1, b'"'),
            _ => (1, 0, b' '),
        };
        code[at + kept..][..length].fill(blank);
        at += kept + length;
        template_end = (blank == b'"').then_some(at);
    }
    code
}

/// Returns whether an expression begins after this code, so that a slash does not divide.
fn begins_expression(code: &[u8]) -> bool {
    let code = code.trim_ascii_end();
    let is_of_word =
        |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | 0x80..);
    match code.last() {
        Some(b')' | b']' | b'}' | b'"') => false,
        Some(byte) if is_of_word(byte) => {
            let length =
                code.iter().rev().take(LONGER_THAN_WORDS).take_while(|byte| is_of_word(byte));
            BEFORE_EXPRESSIONS.contains(&&code[code.len() - length.count()..])
        }
        _ => true,
    }
}

/// Returns the length of the string at the beginning of `rest`.
fn string(rest: &[u8], quote: u8) -> usize {
    end(rest, |_, byte| byte == quote || byte == b'\n')
}

/// Returns the length of the regular expression at the beginning of `rest`, which ends with its
/// line at the latest.
fn regular_expression(rest: &[u8]) -> usize {
    let mut in_class = false;
    end(rest, |_, byte| {
        in_class = byte == b'[' || (in_class && byte != b']');
        byte == b'\n' || (byte == b'/' && !in_class)
    })
}

/// Returns the length of the template at the beginning of `rest`, or of its part before the first
/// substitution. The first byte is the quote, or the brace that closes a substitution.
fn template(rest: &[u8]) -> usize {
    let length = end(rest, |at, byte| byte == b'`' || rest[at..].starts_with(b"${"));
    if rest[..length].ends_with(b"$") { length - 1 } else { length }
}

/// Returns the length of a literal up to and including the byte that ends it.
///
/// # Arguments
/// * `ends` - returns whether the byte at a position ends the literal. Escaped bytes never end it.
fn end(rest: &[u8], mut ends: impl FnMut(usize, u8) -> bool) -> usize {
    let mut at = 1;
    while let Some(byte) = rest.get(at) {
        at += match byte {
            b'\\' => 2,
            byte if ends(at, *byte) => return at + 1,
            _ => 1,
        };
    }
    rest.len()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn code(source: &str) -> String {
        String::from_utf8(without_literals(source.as_bytes())).unwrap()
    }

    #[test]
    fn brackets_of_types_count_as_nesting() {
        let deepest = |source: &str| depth(true, source.as_bytes());
        assert_eq!(deepest("let a: A<B<C>> = <D>(e) => f < g; let h = i < j; k<l>(m)"), 2);
        assert_eq!(deepest("a<{b;}|a<{b;}|a<{b;}|"), 4);
        assert_eq!(deepest("{ a < b; a < b; } { a < b\n a > b }\n a => b => <A,>(c) => d"), 2);
        assert_eq!(deepest(")>]>}>"), 0);
    }

    #[test]
    fn the_content_of_literals_and_comments_is_no_code() {
        for (source, expected) in [
            (r#"a("(\"(", '(')"#, r#"a("""""", """)"#),
            ("a // (\n(b /* ( */)", "a     \n(b        )"),
            ("`(${a(`(${b}(`)}(`", r#"""${a(""${b}"")}"""#),
            ("`${a}${b}(`(", r#""${a}${b}""("#),
            ("return /[(/](/g + 1", r#"return """""""g + 1"#),
            ("a(b) / (c) / (d)", "a(b) / (c) / (d)"),
            ("x = /(/\n(", "x = \"\"\"\n("),
            ("{ ${ }", "{ ${ }"),
            ("\"(\n(", "\"\"\"("),
            ("`(", r#""""#),
            ("'(\\", r#"""""#),
            ("/*(", "   "),
        ] {
            assert_eq!(code(source), expected, "{source}");
        }
    }

    #[test]
    fn a_table_of_brackets_in_strings_is_not_nested() {
        let table = format!("export default {{ table: \"{}\" }}", "[(".repeat(1_000));
        let regular = format!("export default {{ table: [{}] }}", "/[(]\"/,'(',".repeat(1_000));
        for source in [table, regular] {
            assert!(!exceeds(100, ModuleKind::JavaScript, source.as_bytes()), "{source}");
        }
        let nested = "`${[".repeat(101);
        assert!(exceeds(100, ModuleKind::JavaScript, nested.as_bytes()));
    }

    proptest! {
        #[test]
        fn the_length_of_code_stays(source in "[/*\"'`\\\\${}a(\n \\[\\]]{0,40}") {
            prop_assert_eq!(code(&source).len(), source.len());
        }
    }
}
